// What stands out of the page sideways, except within what scrolls by itself; an empty text if nothing does.
() => {
  const width = document.documentElement.clientWidth;
  if (document.scrollingElement.scrollWidth <= width) return "";
  const scrolls = (element) => {
    for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== "visible") return true;
    }
    return false;
  };
  const out = [...document.querySelectorAll("body *")].filter((element) => element.getBoundingClientRect().right > width + 1 && !scrolls(element));
  return `wider than the window (${document.scrollingElement.scrollWidth} > ${width}): ${out.slice(0, 3).map((one) => one.outerHTML.slice(0, 80)).join(", ")}`;
}
