// An agent's timeline: a bar, or several drawn over, list the memories of that time in place.
"use strict";

(() => {
  const bars = document.querySelector(".timeline svg[data-list]");
  if (!bars) return;
  const all = [...bars.querySelectorAll("a")];
  const frame = bars.parentElement;
  frame.scrollLeft = frame.scrollWidth; // the latest first
  let first;

  const barAt = (event) => document.elementFromPoint(event.clientX, event.clientY)?.closest(".timeline svg[data-list] a");
  const choose = (from, to) => {
    const [low, high] = [all.indexOf(from), all.indexOf(to)].sort((a, b) => a - b);
    all.forEach((bar, place) => bar.classList.toggle("chosen", place >= low && place <= high));
    return [all[low], all[high]];
  };
  const list = (low, high) => {
    const query = new URLSearchParams({ from: low.dataset.from, to: high.dataset.to });
    const form = document.querySelector(".timeline form"); // its last day is part of the list
    form.elements.from.value = low.dataset.from.slice(0, 10);
    form.elements.to.value = new Date(Date.parse(high.dataset.to) - 1).toISOString().slice(0, 10);
    htmx.ajax("GET", `${bars.dataset.list}?${query}`, { target: "#memories", swap: "innerHTML" });
  };

  bars.addEventListener("dragstart", (event) => event.preventDefault());
  bars.addEventListener("pointerdown", (event) => { first = event.target.closest("a"); });
  bars.addEventListener("pointermove", (event) => {
    const bar = first && barAt(event);
    if (bar) choose(first, bar);
  });
  bars.addEventListener("click", (event) => {
    const bar = event.target.closest("a");
    if (!bar) return;
    event.preventDefault();
    list(...choose(first ?? bar, bar));
    first = undefined;
  });
  document.addEventListener("pointerup", (event) => {
    const bar = first && barAt(event);
    if (bar && bar !== first) list(...choose(first, bar)); // over several bars no click follows
    setTimeout(() => { first = undefined; });
  });
})();
