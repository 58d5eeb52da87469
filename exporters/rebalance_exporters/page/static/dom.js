// Makes elements. Text from Kafka enters the page only here, as text: nothing in this page parses markup.

const SVG = "http://www.w3.org/2000/svg";

// Control characters, marks that change the text direction, and unusual blanks: shown as \u{202e} and the like, so that
// two different names never look the same.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

/** Return text in which every character is visible. */
export function visible(text) {
  return String(text).replace(UNSEEN, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
}

/** Make an element; children are nodes, text, lists of both, or null. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...nodes(children));
  return element;
}

/** Return children, as `el` accepts them, as nodes and texts. */
export function nodes(children) {
  return children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== "")
    .map((each) => (each instanceof Node ? each : visible(each)));
}

/** Make a name from Kafka, whose text direction does not affect the text around it. */
export function named(text) {
  return el("bdi", {}, text === "" ? "(no name)" : text);
}

/** Make a time that is also machine-readable. */
export function timed(atMs, text) {
  return el("time", { datetime: new Date(atMs).toISOString() }, text);
}

/** Make a section that is labelled by its heading. */
export function section(heading, ...children) {
  return el("section", { "aria-label": heading }, el("h2", {}, heading), ...children);
}

/** Make a table with a caption for screen readers, whose rows become cards on narrow screens; `numbers` are the indexes of right-aligned columns. */
export function grid(caption, heads, rows, numbers = []) {
  const kind = (place) => (numbers.includes(place) ? "number" : null);
  return el("table", { role: "table" }, el("caption", { class: "unseen" }, caption),
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads.map((each, place) => el("th", { scope: "col", role: "columnheader", class: kind(place) }, each)))),
    el("tbody", { role: "rowgroup" }, rows.map((cells) => el("tr", { role: "row" }, cells.map((each, place) => el("td", { role: "cell", class: kind(place), "data-label": heads[place] }, each))))));
}

/** Set the text of an element if it differs: screen readers read out each change of a live region. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const filled = new WeakMap();

/**
 * Fill a container anew if `signature` is not that of its present content; return whether it did. Focus and opened
 * details are restored: they are found again by link, id or key.
 */
export function refill(container, signature, build) {
  if (filled.get(container) === signature) return false;
  filled.set(container, signature);
  const open = new Set([...container.querySelectorAll("details[data-key][open]")].map((each) => each.dataset.key));
  const focused = container.contains(document.activeElement) ? identify(document.activeElement) : null;
  container.replaceChildren(...nodes([build()]));
  for (const each of container.querySelectorAll("details[data-key]")) if (open.has(each.dataset.key)) each.open = true;
  if (focused !== null) {
    const again = [...container.querySelectorAll("a, button, summary, select, input, textarea, [tabindex]")].find((each) => identify(each) === focused);
    again?.focus({ preventScroll: true });
  }
  return true;
}

function identify(element) {
  const key = element.tagName === "SUMMARY" ? element.parentElement.dataset.key : element.dataset.key;
  return `${element.tagName} ${element.id || key || element.getAttribute("href") || ""}`;
}
