// What the pages do beyond htmx. Texts come from the pages, so that they are in the person's language.
"use strict";

// A choice that is made by choosing: the group, a filter.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit-on-change]")) event.target.form.requestSubmit();
  const all = event.target.closest("[data-choose-all]");
  if (all) {
    for (const box of document.querySelectorAll(all.dataset.chooseAll)) box.checked = all.checked;
  }
});

// Destructive actions ask; htmx's own question (hx-confirm) is for those that it sends.
document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.querySelector(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent.trim());
    button.textContent = button.dataset.copied;
  } catch {
    window.getSelection().selectAllChildren(source); // no right to the clipboard: selected, to be copied by hand
  }
});

// Search from anywhere: "/" or Ctrl-K. Arrows go through what is found; Enter follows the first.
const find = document.getElementById("find");
const typing = (element) => element.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(element.tagName);
const openFind = (event) => {
  event.preventDefault();
  for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = false;
  if (!find.open) find.showModal();
  find.querySelector("input[type=search]").select();
};
document.addEventListener("keydown", (event) => {
  if (!find) return;
  if ((event.key === "/" && !typing(event.target) && !event.ctrlKey && !event.metaKey) || (event.key === "k" && (event.ctrlKey || event.metaKey))) {
    openFind(event);
  } else if (find.open && event.key === "Escape") {
    find.close(); // a search field would only be emptied
    event.preventDefault();
  } else if (find.open && ["ArrowDown", "ArrowUp"].includes(event.key)) {
    const stops = [find.querySelector("input[type=search]"), ...find.querySelectorAll("#find-results a")];
    const step = event.key === "ArrowDown" ? 1 : -1;
    stops[(stops.indexOf(document.activeElement) + step + stops.length) % stops.length].focus();
    event.preventDefault();
  }
});
document.addEventListener("click", (event) => {
  if (find && event.target.closest("[data-opens='#find']")) openFind(event);
  else if (event.target === find) find.close(); // beside it
});
find?.addEventListener("submit", (event) => {
  const first = find.querySelector("#find-results a");
  if (!first || find.querySelector(".htmx-request")) return; // not yet found: the page of memories looks
  event.preventDefault();
  window.location.assign(first.href);
});

// The menu keeps its place from page to page.
const side = document.querySelector(".beside-page");
if (side) {
  side.scrollTop = Number(sessionStorage.getItem("menu") ?? 0);
  window.addEventListener("pagehide", () => sessionStorage.setItem("menu", side.scrollTop));
}

// A hidden page is not refreshed.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.detail.elt.hasAttribute("data-live")) event.preventDefault();
});

// What a refresh could not load is said once, and taken back when the next one comes through.
const trouble = (text) => {
  const line = document.getElementById("trouble");
  line.textContent = text;
  line.hidden = !text;
};
document.addEventListener("htmx:sendError", () => trouble(document.getElementById("trouble").dataset.unreachable));
// What htmx sent and was refused stays as it was typed; what is wrong is said beside the fields that are named, the rest below.
const formOf = (element) => {
  const around = element.closest("form");
  const included = element.getAttribute("hx-include");
  return around ?? (included ? document.querySelector(included)?.closest("form") : null);
};
const beside = (form, name) => {
  const field = form && name ? form.elements[name] ?? form.elements[name.replace(/_ids?$/, "")] : null;
  return field instanceof HTMLElement && !["hidden", "checkbox", "radio"].includes(field.type) ? field : null;
};
const unmark = (form) => {
  for (const words of form.querySelectorAll("small.refused")) words.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.setAttribute("aria-describedby", (field.getAttribute("aria-describedby") ?? "").replace(/refused-\S+ ?/, ""));
  }
};
const mark = (field, text) => {
  const words = Object.assign(document.createElement("small"), { className: "refused", id: `refused-${field.name}`, textContent: text });
  words.setAttribute("role", "alert");
  field.after(words);
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", `${words.id} ${field.getAttribute("aria-describedby") ?? ""}`.trim());
};
document.addEventListener("htmx:beforeRequest", (event) => {
  const form = formOf(event.detail.elt);
  if (form) unmark(form);
});
document.addEventListener("htmx:responseError", (event) => {
  const said = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html").querySelectorAll("[data-message]");
  const form = formOf(event.detail.elt);
  const rest = [];
  let first = null;
  for (const problem of said) {
    const field = beside(form, problem.dataset.field);
    if (field) mark(field, problem.textContent.trim());
    else rest.push([problem.dataset.field, problem.textContent.trim()].filter(Boolean).join(": "));
    first ??= field;
  }
  const line = document.getElementById("trouble");
  if (rest.length || !said.length) trouble(`${line.dataset.refused} ${rest.join("; ") || event.detail.xhr.status}`);
  if (event.detail.requestConfig.verb !== "get") (first ?? line).focus();
});
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful) trouble("");
});

// Times come in UTC, in the form that they are shown in; here they become the reader's own, unless they chose UTC.
const pad = (number) => String(number).padStart(2, "0");
const shown = (then, old) => {
  const day = `${pad(then.getMonth() + 1)}-${pad(then.getDate())}`;
  const clock = `${pad(then.getHours())}:${pad(then.getMinutes())}`;
  const exact = `${clock}:${pad(then.getSeconds())}`;
  if (/^\d{4}-\d\d-\d\d \d\d:\d\d$/.test(old)) return `${then.getFullYear()}-${day} ${clock}`;
  if (/^\d\d-\d\d \d\d:\d\d$/.test(old)) return `${day} ${clock}`;
  if (/^\d\d-\d\d \d\d:\d\d:\d\d$/.test(old)) return `${day} ${exact}`;
  if (/^\d\d:\d\d:\d\d$/.test(old)) return exact;
  return null;
};
const localTimes = () => {
  if (document.documentElement.dataset.zone === "utc") return;
  for (const element of document.querySelectorAll("time[datetime]")) {
    if (element.dataset.shown === element.textContent) continue; // done already
    const then = new Date(element.getAttribute("datetime"));
    const text = Number.isNaN(then.getTime()) ? null : shown(then, element.textContent.trim());
    if (text === null) continue;
    element.textContent = text;
    element.dataset.shown = text;
    if (element.title) element.title = text;
  }
  const note = document.getElementById("zone");
  if (note) note.textContent = note.dataset.local.replace("ZONE", Intl.DateTimeFormat().resolvedOptions().timeZone);
};
document.addEventListener("DOMContentLoaded", localTimes);
document.addEventListener("DOMContentLoaded", () => {
  for (const field of document.querySelectorAll("[data-own-zone]")) field.value ||= Intl.DateTimeFormat().resolvedOptions().timeZone;
});
document.addEventListener("htmx:afterSettle", localTimes);
document.addEventListener("htmx:sseMessage", localTimes);
document.addEventListener("jiyi:arrivals", localTimes);
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-print]")) window.print();
});
