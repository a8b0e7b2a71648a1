// What is wrong with the page as it is: one sentence a defect. A small part of what axe looks at, and what axe does not.
({ language, phone }) => {
  const wrong = [];
  const name = (element) => {
    const id = element.id ? `#${element.id}` : "";
    const classes = typeof element.className === "string" && element.className ? `.${element.className.trim().split(/\s+/).join(".")}` : "";
    return `<${element.localName}${id}${classes}> “${(element.textContent || "").trim().slice(0, 40)}”`;
  };
  const shown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !element.closest(".sr, .skip, [hidden]");
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);

  // Width: nothing stands out of the page sideways, except within what scrolls by itself.
  const width = document.documentElement.clientWidth;
  if (document.scrollingElement.scrollWidth > width) {
    const scrolls = (element) => {
      for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
        if (getComputedStyle(at).overflowX !== "visible") return true;
      }
      return false;
    };
    const out = all("body *").filter((element) => element.getBoundingClientRect().right > width + 1 && !scrolls(element));
    wrong.push(`wider than the window (${document.scrollingElement.scrollWidth} > ${width}): ${out.slice(0, 3).map(name).join(", ")}`);
  }

  // Names: of everything that can be used, and of every picture.
  const named = (element) => Boolean(
    (element.getAttribute("aria-label") || "").trim() || element.labels?.length || element.getAttribute("aria-labelledby") ||
    (!["input", "select", "textarea"].includes(element.localName) && element.textContent.trim()));
  for (const element of all("a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], [role=img], img")) {
    if (element.localName === "img" ? !element.hasAttribute("alt") : !named(element)) wrong.push(`without a name: ${element.outerHTML.slice(0, 120)}`);
  }
  for (const element of all("label")) {
    if (!element.control) wrong.push(`labels nothing: ${name(element)}`);
  }
  const ids = new Map();
  for (const { id } of document.querySelectorAll("[id]")) ids.set(id, (ids.get(id) ?? 0) + 1);
  for (const [id, count] of ids) if (count > 1) wrong.push(`id “${id}” ${count} times`);
  if (all("h1").length !== 1) wrong.push(`${all("h1").length} first headings`);
  if (all("main").length !== 1) wrong.push("not one main");
  let before = 1;
  for (const heading of all("main :is(h1, h2, h3, h4)")) {
    const level = Number(heading.localName[1]);
    if (level > before + 1) wrong.push(`a heading was skipped before ${name(heading)}`);
    before = level;
  }
  if (document.documentElement.lang !== language) wrong.push(`lang is ${document.documentElement.lang}`);
  if (!document.title.trim() || document.title.startsWith(" ·")) wrong.push("no title");

  // Contrast of text with what is behind it: 4.5, of large letters 3.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parsed = new Map();
  const rgba = (colour) => {
    if (!parsed.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      parsed.set(colour, [r, g, b, a / 255]);
    }
    return parsed.get(colour);
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((value, place) => value * a + below[place] * (1 - a)).concat(1);
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      layers.unshift(colour);
      if (colour[3] === 1) break;
    }
    return layers.reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((value) => value / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const seen = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const english = [];
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.textContent.trim();
    if (!text || !element || element.closest("svg, noscript, script, style, option") || !shown(element)) continue;
    const style = getComputedStyle(element);
    const below = behind(element);
    const colour = over(rgba(style.color), below);
    const [light, dark] = [luminance(colour), luminance(below)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const key = `${style.color} on ${below.map(Math.round)}`;
    if (ratio < (large ? 3 : 4.5) && !element.closest(":disabled") && !seen.has(key)) {
      seen.add(key);
      wrong.push(`contrast ${ratio.toFixed(2)}: ${name(element)} ${key}`);
    }
    // In another language nothing of ours is left in English: two Latin words in a row, or one in what leads and names.
    if (language !== "en" && !element.closest("[translate=no], [dir=auto], code, pre, [lang]:not(html), time")) {
      const leads = element.closest("nav, h1, h2, h3, th, label, legend, button, summary, dt, [role=button]");
      const words = text.replace(/\b(Jiyi|JSON|UTC|API|OpenAPI|HTTP|LLM|PostgreSQL|Valkey|Beat|JIYI_\w+|BM25|id|Id|IP|A|B|p\d+)\b/g, "·");
      const found = words.match(leads && !/[\u4e00-\u9fff]/.test(words) ? /[A-Za-z]{2,}/ : /[A-Za-z]{2,}[ ,]+[A-Za-z]{2,}/);
      if (found) english.push(`${name(element)}: ${found[0]}`);
    }
  }
  for (const one of [...new Set(english)]) wrong.push(`not translated: ${one}`);
  if (phone) {
    // What is touched is large enough for a finger, unless it stands in a line of text (WCAG 2.5.8).
    for (const element of all("button, summary, select, [role=button]")) {
      const box = element.getBoundingClientRect();
      if (box.height < 24 && getComputedStyle(element).display !== "inline") wrong.push(`too small to touch (${box.height.toFixed(0)} px): ${name(element)}`);
    }
  }
  return wrong;
}
