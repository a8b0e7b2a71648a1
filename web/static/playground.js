// The retrieval playground: figures beside the sliders, two settings side by side, short addresses. htmx asks.
"use strict";

(() => {
  const form = document.querySelector("form.playground");
  if (!form) return;
  const sides = form.querySelector(".sides");
  const compare = form.querySelector("[name=compare]");
  const settings = (side) => [...form.querySelectorAll(`[data-side="${side}"] [data-default]`)];

  const show = (field) => {
    const slider = field.closest(".slider");
    if (!slider) return;
    slider.querySelector("output").textContent = field.value;
    slider.classList.toggle("changed", field.value !== field.dataset.default);
  };

  // A side that is not shown is not asked, nor part of the address.
  const enable = () => {
    sides.classList.toggle("both", compare.checked);
    form.querySelector('[data-side="b"]').disabled = !compare.checked;
  };

  form.addEventListener("input", (event) => show(event.target));
  compare.addEventListener("change", () => {
    enable();
    if (compare.checked && settings("b").every((field) => field.value === field.dataset.default)) {
      settings("a").forEach((field, place) => {
        settings("b")[place].value = field.value;
        show(settings("b")[place]);
      });
      // Two settings that are the same show nothing.
      const relevance = form.querySelector('[name="b.relevance"]');
      relevance.value = JSON.parse(compare.dataset.other)[relevance.value];
    }
  });
  form.addEventListener("click", (event) => {
    const side = event.target.dataset.reset;
    if (!side) return;
    for (const field of settings(side)) {
      field.value = field.dataset.default;
      show(field);
    }
    form.requestSubmit();
  });
  // Another agent has other settings of its own: the page starts again with them.
  form.querySelector("[name=agent]").addEventListener("change", (event) => {
    event.stopPropagation();
    const address = new URL(form.action);
    for (const name of ["group", "agent", "focal"]) address.searchParams.set(name, form.elements[name].value);
    window.location.assign(address);
  });

  // The weights that the answers were computed with, beside the sliders that they follow from.
  const showUsed = () => {
    for (const note of form.querySelectorAll("[data-used]")) {
      const [side, part] = note.dataset.used.split(" ");
      const weight = document.querySelector(`#found [data-answer="${side}"]`)?.getAttribute(`data-${part}-weight`);
      note.hidden = !weight;
      note.querySelector("b").textContent = weight ?? "";
    }
  };

  // Rows that were open stay open when a new answer comes.
  let open = new Set();
  const found = document.getElementById("found");
  const rows = () => [...found.querySelectorAll("details[data-node]")];
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target === found) open = new Set(rows().filter((row) => row.open).map((row) => row.dataset.node));
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target !== found) return;
    for (const row of rows()) row.open = open.has(row.dataset.node);
    showUsed();
  });

  enable();
  form.querySelectorAll(".slider input").forEach(show);
})();
