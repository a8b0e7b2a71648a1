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

// A hidden page is not refreshed.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.detail.elt.hasAttribute("data-live")) event.preventDefault();
});

// What a refresh could not bring is said once, and taken back when the next one comes through.
const trouble = (text) => {
  const line = document.getElementById("trouble");
  line.textContent = text;
  line.hidden = !text;
};
document.addEventListener("htmx:sendError", () => trouble(document.getElementById("trouble").dataset.unreachable));
document.addEventListener("htmx:responseError", (event) => {
  const said = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html").querySelector("[data-message]");
  const line = document.getElementById("trouble");
  trouble(`${line.dataset.refused} ${said ? said.textContent.trim() : event.detail.xhr.status}`);
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
document.addEventListener("jiyi:news", localTimes);
