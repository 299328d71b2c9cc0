// Elements, numbers and times. Nothing here ever takes HTML: text stays text, whatever a message holds.

const SVG = "http://www.w3.org/2000/svg";

function build(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined));
  return element;
}

export const h = (tag, properties, ...children) => build(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) =>
  build(document.createElementNS(SVG, tag), properties, children);

/** Change the text of an element; untouched if it has that already, so that selections stay. */
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

const rowsOf = new WeakMap();

/** Have `parent` hold one element for each item, in their order. Those that are there stay, with their focus. */
export function keyed(parent, items, keyOf, make) {
  const before = rowsOf.get(parent) ?? new Map();
  const rows = new Map();
  items.forEach((item, index) => {
    const row = before.get(keyOf(item)) ?? make(item);
    rows.set(keyOf(item), row);
    row.update(item);
    if (parent.children[index] !== row.element) parent.insertBefore(row.element, parent.children[index] ?? null);
  });
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  rowsOf.set(parent, rows);
}

const whole = new Intl.NumberFormat("en");

export const count = (number) => (number === null || number === undefined ? "–" : whole.format(number));

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** For where there is little room: 3.6M. */
export const compact = (number) => short.format(number);

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  const shown = perSecond > 0 && perSecond < 10 ? perSecond.toFixed(1) : whole.format(Math.round(perSecond));
  return `${shown}/s`;
}

export function ms(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 1 : 0)} s`;
  return `${milliseconds < 10 ? milliseconds.toFixed(1) : whole.format(Math.round(milliseconds))} ms`;
}

export function duration(seconds) {
  const [d, h, m] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min` : `${Math.floor(seconds)} s`;
}

export const size = (bytes) =>
  bytes < 1024 ? `${bytes} B` : bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1048576).toFixed(1)} MiB`;

export const clock = (timeMs) => new Date(timeMs).toLocaleTimeString("en-GB");
export const dateTime = (timeMs) => new Date(timeMs).toISOString().replace("T", " ").slice(0, 19) + "Z";
