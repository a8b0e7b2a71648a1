// The graph of an agent's memory, drawn from its table. What is chosen in one is shown in the other.
"use strict";

(() => {
  const frame = document.getElementById("memory-graph");
  const table = document.getElementById("memory-graph-rows");
  if (!frame || !table || !window.cytoscape) return; // the table says all of it
  const rows = [...table.querySelectorAll("tr[data-node]")];
  const rowOf = new Map(rows.map((row) => [row.dataset.node, row]));
  const personId = (name) => `person ${name}`;

  const elements = [];
  for (const row of rows) {
    elements.push({ data: { id: row.dataset.node, label: shortened(row.querySelector("th a").textContent), type: row.dataset.type } });
  }
  const people = new Set(rows.map((row) => row.dataset.person).filter(Boolean));
  for (const name of people) elements.push({ data: { id: personId(name), label: shortened(name), type: "person" } });
  for (const { dataset } of rows) {
    const joined = dataset.evidence.split(" ").filter(Boolean).map((end) => [dataset.node, end, "rests"]);
    if (dataset.replaced) joined.push([dataset.node, dataset.replaced, "replaced"]);
    if (dataset.person) joined.push([dataset.node, personId(dataset.person), "whose"]);
    for (const [source, target, kind] of joined) elements.push({ data: { source, target, kind } });
  }
  // On a spiral, so that the layout begins, and ends, in the same way every time.
  elements.filter(({ data }) => data.id).forEach((element, place) => {
    const turn = place * 2.399963, far = 26 * Math.sqrt(place + 1);
    element.position = { x: far * Math.cos(turn), y: far * Math.sin(turn) };
  });

  frame.parentElement.hidden = false;
  const graph = cytoscape({
    container: frame,
    elements,
    style: styles(),
    userZoomingEnabled: false, // the wheel scrolls the page
    boxSelectionEnabled: false,
    autounselectify: true,
    minZoom: 0.1,
    maxZoom: 4,
    layout: {
      name: "cose", animate: false, randomize: false, padding: 24, numIter: 800, componentSpacing: 50,
      nodeRepulsion: () => 9000, idealEdgeLength: () => 55, gravity: 0.6,
    },
  });

  function shortened(text) {
    const letters = [...text.trim()];
    return letters.length > 28 ? `${letters.slice(0, 27).join("")}…` : letters.join("");
  }

  function styles() {
    const root = getComputedStyle(document.documentElement);
    const colour = (name) => root.getPropertyValue(name).trim();
    const [ink, quiet, panel] = [colour("--pico-color"), colour("--jiyi-quiet"), colour("--jiyi-panel")];
    const node = (type, name, shape) => ({ selector: `node[type = "${type}"]`, style: { "border-color": colour(name), shape } });
    return [
      { selector: "node", style: {
        width: 18, height: 18, "background-color": panel, "border-width": 2.5, label: "data(label)", color: ink, "font-size": 11,
        "font-family": root.getPropertyValue("--pico-font-family-sans-serif"), "text-valign": "bottom", "text-margin-y": 4,
        "text-wrap": "wrap", "text-max-width": 120, "min-zoomed-font-size": 13,
        "text-outline-color": panel, "text-outline-width": 2,
      } },
      node("event", "--jiyi-accent", "ellipse"),
      node("thought", "--jiyi-thought", "diamond"),
      node("chat", "--jiyi-chat", "round-rectangle"),
      { selector: 'node[type = "person"]', style: {
        shape: "round-rectangle", width: 26, height: 26, "background-color": ink, "border-color": ink, "font-size": 14, "min-zoomed-font-size": 5,
      } },
      { selector: "edge", style: {
        width: 1.4, "line-color": quiet, "target-arrow-color": quiet, "curve-style": "bezier", "target-arrow-shape": "triangle", "arrow-scale": 0.8,
      } },
      { selector: 'edge[kind = "whose"]', style: { "line-style": "dotted", "target-arrow-shape": "none", opacity: 0.5 } },
      { selector: 'edge[kind = "replaced"]', style: {
        "line-style": "dashed", "line-color": colour("--jiyi-attention"), "target-arrow-color": colour("--jiyi-attention"), width: 2,
      } },
      { selector: ".away", style: { opacity: 0.18 } },
      { selector: "node.near", style: { "min-zoomed-font-size": 0 } },
      { selector: "node.chosen", style: { width: 28, height: 28, "border-width": 4, "font-weight": "bold", "z-index": 9 } },
    ];
  }

  let chosen;
  const said = document.getElementById("memory-graph-chosen");
  const nothing = [...said.childNodes];
  function choose(node, { follow = true } = {}) {
    chosen = node;
    graph.elements().removeClass("chosen near away");
    for (const row of rows) row.classList.toggle("chosen", node?.id() === row.dataset.node);
    if (!node) {
      said.replaceChildren(...nothing);
      return;
    }
    const near = node.closedNeighborhood();
    graph.elements().difference(near).addClass("away");
    near.nodes().addClass("near");
    node.addClass("chosen");
    const row = rowOf.get(node.id());
    said.replaceChildren(...(row ? [...row.querySelector("th").cloneNode(true).childNodes] : [node.data("label")]));
    if (!follow) return;
    keepInView(node);
    if (row) { // within its own region: the page stays where it is
      const region = row.closest(".graph-table");
      const head = table.tHead.offsetHeight;
      if (row.offsetTop - head < region.scrollTop || row.offsetTop + row.offsetHeight > region.scrollTop + region.clientHeight) {
        region.scrollTop = row.offsetTop - head - 8;
      }
    }
  }

  function keepInView(node) {
    const { x, y } = node.renderedPosition();
    if (x < 30 || y < 30 || x > graph.width() - 30 || y > graph.height() - 30) graph.center(node);
  }

  function open(node) {
    const link = rowOf.get(node?.id())?.querySelector("th a");
    if (link) link.click();
  }

  // The next in a direction: near, and rather straight on than aside.
  function next(right, down) {
    if (!chosen) return graph.nodes().first();
    const from = chosen.position();
    let best, least = Infinity;
    graph.nodes().difference(chosen).forEach((node) => {
      const dx = node.position("x") - from.x, dy = node.position("y") - from.y;
      const on = dx * right + dy * down, aside = Math.abs(dx * down) + Math.abs(dy * right);
      const far = on + 2 * aside;
      if (on > 0 && aside <= 2 * on && far < least) [best, least] = [node, far];
    });
    return best ?? chosen;
  }

  function zoom(how) {
    if (how === "all") graph.fit(undefined, 24);
    else graph.zoom({ level: graph.zoom() * (how === "in" ? 1.3 : 1 / 1.3), renderedPosition: { x: graph.width() / 2, y: graph.height() / 2 } });
  }

  const keys = {
    ArrowLeft: () => choose(next(-1, 0)), ArrowRight: () => choose(next(1, 0)),
    ArrowUp: () => choose(next(0, -1)), ArrowDown: () => choose(next(0, 1)),
    Enter: () => open(chosen), Escape: () => choose(),
    "+": () => zoom("in"), "=": () => zoom("in"), "-": () => zoom("out"), 0: () => zoom("all"),
  };
  frame.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
  graph.on("tap", (event) => choose(event.target === graph ? undefined : event.target.isNode() ? event.target : undefined));
  graph.on("dbltap", "node", (event) => open(event.target));
  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => zoom(button.dataset.zoom));
  for (const kind of ["pointerover", "focusin"]) {
    table.addEventListener(kind, (event) => {
      const row = event.target.closest("tr[data-node]");
      if (row && chosen?.id() !== row.dataset.node) {
        choose(graph.getElementById(row.dataset.node), { follow: false });
        keepInView(chosen);
      }
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => graph.style(styles()));
})();
