// The drawing of a memory's evidence: what a box is joined with is lit, and the box itself begins in view.
"use strict";

(() => {
  const graph = document.querySelector(".graph");
  if (!graph) return;
  const light = (id) => {
    for (const line of graph.querySelectorAll("path")) {
      line.classList.toggle("lit", id !== undefined && (line.dataset.above === id || line.dataset.below === id));
    }
  };
  const boxOf = (event) => event.target.closest?.("a")?.dataset.node;
  for (const kind of ["pointerover", "focusin"]) graph.addEventListener(kind, (event) => light(boxOf(event)));
  for (const kind of ["pointerleave", "focusout"]) graph.addEventListener(kind, () => light());

  const here = graph.querySelector("a.here rect");
  const frame = graph.parentElement;
  if (here && frame.scrollWidth > frame.clientWidth) frame.scrollLeft = Number(here.getAttribute("x")) - 16;
})();
