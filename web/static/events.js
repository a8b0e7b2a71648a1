// Events as they arrive. The stream only says that something has: the rows are fetched, each burst of arrivals once.
"use strict";

(() => {
  const live = document.getElementById("live");
  const list = document.getElementById("events");
  if (!live || !("EventSource" in window)) return;
  const state = live.querySelector(".live-state");
  const dot = live.querySelector(".dot");
  const button = live.querySelector("button");

  const MOST_ROWS = 300; // on the page; older ones leave it at the bottom
  const OVERLAP = 30; // rows looked at once more: an event may be committed after one that came later, and its state changes
  const QUIET_MS = 150; // arrivals within this time are fetched together
  let stream, timer, retry, fetching, busy = false, again = false, paused = false, missed = false;

  const say = (name) => {
    state.textContent = state.dataset[missed && name === "live" ? "missed" : name];
    dot.className = `dot ${{ live: missed ? "attention" : "ok", paused: "unknown", waiting: "unknown" }[name]}`;
  };

  const rows = () => [...list.querySelectorAll("li[data-position]")];

  const merge = (html) => {
    const come = new DOMParser().parseFromString(`<ol>${html}</ol>`, "text/html");
    if (come.querySelector(".missed")) missed = true;
    const fresh = [...come.querySelectorAll("li[data-position]")].reverse(); // oldest first
    for (const row of fresh) {
      const known = document.getElementById(row.id);
      if (known) {
        if (!known.contains(document.activeElement)) known.replaceWith(row);
        continue;
      }
      row.classList.add("fresh");
      const position = Number(row.dataset.position);
      const older = rows().find((other) => Number(other.dataset.position) < position);
      if (older) older.before(row);
      else list.insertBefore(row, list.querySelector(".more"));
    }
    for (const row of rows().slice(MOST_ROWS)) row.remove();
    document.getElementById("no-events").hidden = rows().length > 0;
    document.dispatchEvent(new Event("jiyi:arrivals"));
  };

  const fetchArrivals = async () => {
    if (busy) { again = true; return; }
    busy = true;
    fetching = new AbortController();
    try {
      const known = rows();
      const after = known.length ? Math.max(Number(known[Math.min(OVERLAP, known.length) - 1].dataset.position) - 1, 0) : 0;
      const address = new URL(live.dataset.rows, window.location);
      address.searchParams.set("after", after);
      const answer = await fetch(address, { headers: { "HX-Request": "true" }, signal: fetching.signal });
      if (answer.ok) {
        merge(await answer.text());
        if (stream.readyState === EventSource.OPEN) say("live");
      }
    } catch {
      // Paused; or the service is away, and the stream says when it is back.
    } finally {
      busy = false;
      if (again) { again = false; soon(); }
    }
  };

  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(fetchArrivals, QUIET_MS);
  };

  const begin = () => {
    say("waiting");
    stream = new EventSource(live.dataset.stream); // reconnects automatically, with the last id it knows
    stream.addEventListener("open", () => { say("live"); soon(); });
    stream.addEventListener("error", () => {
      say("waiting");
      if (stream.readyState === EventSource.CLOSED && !paused) retry = setTimeout(begin, 5000);
    });
    for (const kind of ["node.stored", "node.retrievable", "agent.configured", "erasure.done", "gap"]) {
      stream.addEventListener(kind, soon);
    }
  };

  // Also what is due or under way is not shown: a paused list does not change.
  const pause = () => {
    stream.close();
    clearTimeout(timer);
    clearTimeout(retry);
    again = false;
    fetching?.abort();
    say("paused");
  };

  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? button.dataset.resume : button.dataset.pause;
    if (paused) pause(); else begin();
  });

  live.hidden = false;
  begin();
})();
