// Checks of a page without a network, as axe does them: names, roles, headings, ids, contrast.
() => {
  const problems = [];
  const say = (element, text) => problems.push(`${text}: ${element.outerHTML.slice(0, 160)}`);
  const shown = (element) => element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true});
  const name = (element) =>
    element.getAttribute("aria-label") || element.textContent.trim() || element.labels?.[0]?.textContent.trim() ||
    document.getElementById(element.getAttribute("aria-labelledby"))?.textContent || "";

  for (const element of document.querySelectorAll("a, button, summary, input, select, textarea, dialog, nav, meter, svg[role=img]")) {
    if (shown(element) && !name(element)) say(element, "no name");
  }
  for (const element of document.querySelectorAll("table")) {
    if (!element.querySelector("caption")) say(element, "no caption");
    if (!element.querySelector("th[scope]")) say(element, "no headings with a scope");
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) problems.push(`id twice: ${id}`);
  if (document.querySelectorAll("h1").length !== 1) problems.push("not exactly one h1");
  if (!document.documentElement.lang) problems.push("no language");
  for (const element of document.querySelectorAll("[tabindex]")) if (element.tabIndex > 0) say(element, "focus order");

  // Contrast of each text with the colour behind it: 4.5, or 3 for large text.
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const colour = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const behind = (element) => {
    for (let node = element; node; node = node.parentElement) {
      const found = colour(getComputedStyle(node).backgroundColor);
      if (found[3] === 1) return found;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0, 1] : [255, 255, 255, 1];
  };
  const light = ([r, g, b]) => {
    const part = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !shown(element) || element.closest("[disabled], .unseen, option, svg")) continue;
    const style = getComputedStyle(element);
    const [high, low] = [light(colour(style.color)), light(behind(element))].sort((a, b) => b - a);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < (large ? 3 : 4.5)) say(element, `contrast ${ratio.toFixed(2)}`);
  }
  return problems;
}
