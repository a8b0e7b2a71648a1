// What is wrong with the page as it is, beside what axe finds: one sentence a defect.
({ language }) => {
  const wrong = [];
  const name = (element) => {
    const id = element.id ? `#${element.id}` : "";
    const classes = typeof element.className === "string" && element.className ? `.${element.className.trim().split(/\s+/).join(".")}` : "";
    return `<${element.localName}${id}${classes}> “${(element.textContent || "").trim().slice(0, 40)}”`;
  };
  const shown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !element.closest(".sr, .skip, [hidden]");
  if (document.documentElement.lang !== language) wrong.push(`lang is ${document.documentElement.lang}`);
  if (document.title.startsWith(" ·")) wrong.push("no title");
  const ids = new Map();
  for (const { id } of document.querySelectorAll("[id]")) ids.set(id, (ids.get(id) ?? 0) + 1);
  for (const [id, count] of ids) if (count > 1) wrong.push(`id “${id}” ${count} times`);

  // In another language nothing of ours is left in English: two Latin words in a row, or one in what leads and names.
  const english = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (language !== "en" && texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.textContent.trim();
    if (!text || !element || element.closest("svg, noscript, script, style, option") || !shown(element)) continue;
    if (element.closest("[translate=no], [dir=auto], code, pre, [lang]:not(html), time")) continue;
    const leads = element.closest("nav, h1, h2, h3, th, label, legend, button, summary, dt, [role=button]");
    const words = text.replace(/\b(Jiyi|JSON|UTC|API|OpenAPI|HTTP|LLM|PostgreSQL|Valkey|Beat|JIYI_\w+|BM25|id|Id|IP|A|B|p\d+)\b/g, "·");
    const found = words.match(leads && !/[\u4e00-\u9fff]/.test(words) ? /[A-Za-z]{2,}/ : /[A-Za-z]{2,}[ ,]+[A-Za-z]{2,}/);
    if (found) english.add(`not translated: ${name(element)}: ${found[0]}`);
  }
  return [...wrong, ...english];
}
