// The overview's plots. What is plotted, and every text, stands in the page; the figures come as columns.
"use strict";

(() => {
  const section = document.querySelector("[data-series]");
  if (!section || !window.uPlot) return;
  const note = section.querySelector("[data-plot-note]");
  const figures = [...section.querySelectorAll("[data-plot]")].map((figure) => ({
    figure, spec: JSON.parse(figure.dataset.plot), chart: null, hidden: new Set(),
  }));
  const language = document.documentElement.lang;
  const short = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 });
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--jiyi-${name}`).trim();
  const utc = document.documentElement.dataset.zone === "utc";
  const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: utc ? "UTC" : undefined });
  let minutes = 60;
  let timer = 0;

  // Of what should not be there only what is: a line at zero would draw the eye.
  const rare = (one) => one.colour === "unreachable";
  const plotted = (data, one) => {
    const values = column(data, one.column);
    return rare(one) ? values.map((value) => value || null) : values;
  };
  const column = (data, path) => path.split(".").reduce((found, name) => found?.[name], data) ?? [];
  const shown = (value, unit) => (value == null ? "–" : short.format(value) + (unit ? ` ${unit}` : ""));

  // What is under the pointer, or else the last whole step: the one under way is still growing.
  const legend = (item, data, place) => {
    const { figure, spec } = item;
    const line = figure.querySelector(".legend");
    const at = place ?? Math.max(0, data.times.length - 2);
    if (!line.children.length) {  // its buttons stay: one of them may have the focus
      line.append(document.createElement("span"), ...spec.columns.map((one, index) => {
        const button = document.createElement("button");
        button.type = "button";
        button.ariaPressed = "true";
        const dot = document.createElement("i");
        dot.className = `key ${one.colour}`;
        button.append(dot, "");
        button.addEventListener("click", () => {
          item.hidden.has(index) ? item.hidden.delete(index) : item.hidden.add(index);
          button.ariaPressed = String(!item.hidden.has(index));
          item.chart.setSeries(index + 1, { show: !item.hidden.has(index) });
        });
        return button;
      }));
    }
    line.children[0].textContent = clock(data.times[at]);
    spec.columns.forEach((one, index) => {
      line.children[index + 1].lastChild.textContent = `${one.label} ${shown(column(data, one.column)[at], spec.unit)}`;
    });
  };

  const options = (item, data, width) => ({
    width, height: 150, legend: { show: false }, padding: [8, 18, 0, 0],
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { y: { range: (_chart, _least, most) => [0, Math.max(most ?? 0, 1) * 1.08] } },
    series: [{}, ...item.spec.columns.map((one, index) => ({
      label: one.label, show: !item.hidden.has(index), stroke: colour(one.colour), width: 1.6, points: { show: rare(one) || Boolean(one.gaps), size: 4, fill: colour(one.colour) },
      fill: one.colour === "accent" ? `${colour("accent")}1f` : undefined, spanGaps: false,
    }))],
    axes: [
      { stroke: colour("quiet"), font: "11px system-ui", grid: { show: false }, ticks: { show: false }, size: 24, space: 70,
        values: (_chart, splits) => splits.map(clock) },
      { stroke: colour("quiet"), font: "11px system-ui", size: 44, space: 34, ticks: { show: false },
        grid: { stroke: colour("line"), width: 1 }, values: (_chart, splits) => splits.map((value) => short.format(value)) },
    ],
    hooks: { setCursor: [(chart) => legend(item, item.data ?? data, chart.cursor.idx)] },
  });

  const draw = (item, data) => {
    const place = item.figure.querySelector(".plot");
    const columns = [data.times, ...item.spec.columns.map((one) => plotted(data, one))];
    item.data = data;
    if (item.chart) {
      item.chart.setData(columns);
    } else {
      item.chart = new uPlot(options(item, data, place.clientWidth), columns, place);
    }
    legend(item, data, item.chart.cursor.idx);
  };

  const refresh = async () => {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        const answer = await fetch(`${section.dataset.series}?minutes=${minutes}`, { credentials: "same-origin" });
        if (!answer.ok) throw new Error(answer.status);
        const data = await answer.json();
        note.hidden = true;
        for (const item of figures) draw(item, data);
      } catch {
        note.textContent = section.dataset.failed;
        note.hidden = false;
      }
    }
    timer = setTimeout(refresh, Number(section.dataset.refreshSeconds) * 1000);
  };

  const redraw = () => {
    for (const item of figures) {
      item.chart?.destroy();
      item.chart = null;
      if (item.data) draw(item, item.data);
    }
  };

  section.addEventListener("click", (event) => {
    const button = event.target.closest("[data-minutes]");
    if (!button) return;
    minutes = Number(button.dataset.minutes);
    for (const each of section.querySelectorAll("[data-minutes]")) each.setAttribute("aria-pressed", String(each === button));
    refresh();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let width = section.clientWidth;
  new ResizeObserver(() => {
    if (section.clientWidth !== width) {
      width = section.clientWidth;
      redraw();
    }
  }).observe(section);
  note.hidden = true;
  refresh();
})();
