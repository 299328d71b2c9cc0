// Lines over the last hour. `series` are {name, class, area}, `points` are [time in s, value, value…], and
// `none` is said where there is no value.

import { h, setText, svg } from "./dom.js";

const HOUR_S = 3600;
const [HEIGHT, LEFT, BOTTOM, TOP] = [190, 56, 24, 10];

export function chart(title, series, format, none) {
  const key = h("p", { class: "key" }, series.map(({ name, class: kind }) => h("span", { class: kind }, name)));
  const said = h("output", { class: "said" });
  const plot = h("div", { class: "plot" });
  const element = h("figure", { class: "chart" }, h("figcaption", {}, h("b", {}, title), key, said), plot);
  let points = [];

  function draw() {
    const width = plot.clientWidth || 600;
    const end = points.length ? points.at(-1)[0] : 0;
    const top = ceiling(Math.max(0, ...points.flatMap((point) => point.slice(1)).filter((value) => value !== null)));
    const x = (time) => LEFT + (1 - (end - time) / HOUR_S) * (width - LEFT - 8);
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    const grid = [0, 0.5, 1].map((share) => [
      svg("line", { x1: LEFT, x2: width - 8, y1: y(top * share), y2: y(top * share), class: "grid" }),
      svg("text", { x: LEFT - 8, y: y(top * share) + 4, "text-anchor": "end" }, share ? format(top * share) : "0"),
    ]);
    const times = (width < 520 ? [60, 30, 0] : [60, 45, 30, 15, 0]).map((minutes) =>
      svg("text", { x: x(end - minutes * 60), y: HEIGHT - 6, "text-anchor": minutes === 60 ? "start" : minutes ? "middle" : "end" },
        minutes ? `−${minutes} min` : "now"));
    const lines = series.flatMap(({ class: kind, area }, index) => {
      if (index && !points.some((point) => point[index + 1])) return []; // a line along the axis says nothing
      const runs = unbroken(points, index + 1).map((run) => run.map((point) => `${x(point[0]).toFixed(1)} ${y(point[index + 1]).toFixed(1)}`));
      return runs.flatMap((run) => {
        const first = run[0].split(" ")[0];
        const last = run.at(-1).split(" ")[0];
        const filled = area ? [svg("path", { class: `area ${kind}`, d: `M ${first} ${y(0)} L ${run.join(" L ")} L ${last} ${y(0)} Z` })] : [];
        const alone = run.length === 1; // a line has no length then
        return [...filled, svg("path", { class: `line ${kind}${alone ? " alone" : ""}`, d: `M ${run.join(" L ")}${alone ? " h 0.1" : ""}` })];
      });
    });
    const empty = lines.length ? null : svg("text", { x: (LEFT + width) / 2, y: y(top * 0.75) + 4, "text-anchor": "middle", class: "none" }, none);
    const cursor = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    const latest = points.length ? describe(points.at(-1)) : "nothing";
    const picture = svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${title}, the last hour; now ${latest}` },
      grid, times, lines, empty, cursor);
    setText(said, latest);
    picture.addEventListener("pointermove", (event) => {
      const at = event.clientX - picture.getBoundingClientRect().left;
      const near = points.reduce((best, point) => (Math.abs(x(point[0]) - at) < Math.abs(x(best[0]) - at) ? point : best), points[0]);
      if (!near) return;
      cursor.setAttribute("x1", x(near[0]));
      cursor.setAttribute("x2", x(near[0]));
      cursor.setAttribute("visibility", "visible");
      setText(said, `${new Date(near[0] * 1000).toLocaleTimeString("en-GB")}: ${describe(near)}`);
    });
    picture.addEventListener("pointerleave", () => {
      cursor.setAttribute("visibility", "hidden");
      setText(said, latest);
    });
    plot.replaceChildren(picture);
  }

  const describe = (point) =>
    series.map(({ name }, index) => (point[index + 1] === null ? null : `${name} ${format(point[index + 1])}`)).filter(Boolean).join(", ") || "nothing";

  const observer = new ResizeObserver(draw);
  observer.observe(plot);
  return {
    element,
    show(next) {
      points = next;
      draw();
    },
    close: () => observer.disconnect(),
  };
}

/** The next round number, so that the axis is easy to read. */
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((each) => each >= value * 1.05) ?? 20 * power;
}

function unbroken(points, index) {
  const runs = [[]];
  for (const point of points) {
    if (point[index] === null) runs.push([]);
    else runs.at(-1).push(point);
  }
  return runs.filter((run) => run.length);
}
