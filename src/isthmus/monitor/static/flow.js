// The bridge as one picture: systems → journal → router → topics and outboxes. It is drawn anew when what there
// is to draw changes, or the width does; otherwise figures and colours are changed in place.

import { compact, count, duration, h, keyed, ms, rate, setText, svg } from "./dom.js";

const NARROW = 840;
const MOST = 12;
const NODE = { w: 216, h: 56 };

export function flow() {
  const figures = h("dl", { class: "figures" });
  const picture = h("div", { class: "picture" });
  const facts = h("dl", { class: "facts" });
  const element = h(
    "div",
    {},
    h("h1", { class: "quiet" }, "Flow"),
    figures,
    picture,
    h("h2", {}, "About this bridge"),
    facts,
  );
  let drawn = null;
  let last = null;

  const observer = new ResizeObserver(() => last && draw(last));
  observer.observe(picture);

  function draw(state) {
    const width = picture.clientWidth || 1000;
    const nodes = nodesOf(state);
    const shape = JSON.stringify([width, nodes.map(({ id, column }) => [id, column])]);
    if (drawn?.shape !== shape) {
      drawn = { shape, ...(width < NARROW ? tall(nodes, width) : wide(nodes, width)) };
      picture.replaceChildren(drawn.element);
    }
    for (const node of nodes) drawn.show(node);
  }

  return {
    element,
    update(state) {
      last = state;
      showFigures(figures, state);
      showFacts(facts, state);
      draw(state);
    },
    close: () => observer.disconnect(),
  };
}

function showFigures(list, { router }) {
  const failed = sum(router.routes, "failed");
  const isHere = router.records !== null; // else the router is looked at by another process
  const slowest = Math.max(-1, ...router.routes.map((route) => route.p99_ms ?? -1));
  const items = [
    ["journaled", isHere ? rate(router.per_s) : "–"],
    ["published", isHere ? rate(router.published_per_s) : "–"],
    ["lag", isHere ? count(router.lag) : "–"],
    ["latency, p99", ms(slowest < 0 ? null : slowest)],
    ["failed", count(failed)],
  ];
  keyed(list, items, ([name]) => name, ([name]) => {
    const value = h("dd");
    return {
      element: h("div", {}, h("dt", {}, name), value),
      update: ([, text]) => {
        setText(value, text);
        value.classList.toggle("bad", name === "failed" && text !== "0");
      },
    };
  });
}

function showFacts(list, state) {
  const versions = Object.entries(state.versions).map(([name, version]) => `${name} ${version}`);
  const items = Object.entries({
    ...state.facts,
    ...(versions.length ? { versions: versions.join(", ") } : {}),
    uptime: duration(state.uptime_s),
  });
  keyed(list, items, ([name]) => name, ([name]) => {
    const value = h("dd");
    return { element: h("div", {}, h("dt", {}, name), value), update: ([, text]) => setText(value, text) };
  });
}

/** What there is to draw: nodes in four columns, each with the rate of the edge that leads to or from it. */
function nodesOf(state) {
  const { router, problems } = state;
  const wrong = (...names) => names.map((name) => problems[name]).find(Boolean) ?? null;
  const kafka = wrong("kafka");
  const sources = [...state.intakes, ...state.connectors].map((part) => ({
    id: `source ${part.name}`,
    column: 0,
    title: part.name === "amqp" ? "AMQP clients" : part.name,
    text: part.name === "amqp" ? `${rate(part.out_per_s)} received` : part.system,
    edge: part.in_per_s,
    problem: part.connected ? wrong(`intake ${part.name}`, part.system) : "unavailable",
  }));
  if (!sources.length) {
    sources.push({ id: "source", column: 0, title: "Edges", text: "in other processes", edge: router.per_s, problem: null });
  }
  const nodes = [
    ...first(sources, "more systems"),
    {
      id: "journal", column: 1, title: "Journal", text: router.records === null ? "Kafka" : `${compact(router.records)} records`,
      edge: router.per_s, problem: wrong("journal") ?? kafka,
    },
  ];
  if (state.queries.includes("ledger")) {
    nodes.push({
      id: "ledger", column: 2, title: "Ledger", text: held(state.ledger), edge: null, problem: wrong("ledger", "pipeline"),
    });
  }
  nodes.push({
    id: "router", column: 3, title: "Router",
    text: state.queries.includes("router") ? `lag ${count(router.lag)}` : "in another process",
    edge: (router.published_per_s ?? 0) + sum(router.routes, "failed_per_s"), problem: wrong("router", "pipeline"),
  });
  const targets = router.routes.map((route) => {
    const part = state.routes.find((each) => each.name === route.name);
    return {
      id: `route ${route.name}`,
      column: 4,
      href: `#/routes/${encodeURIComponent(route.name)}`,
      title: route.destination ?? route.topic,
      text: part ? `${route.name} ${part.system}${part.lag ? `, lag ${compact(part.lag)}` : ""}` : route.name,
      edge: route.per_s,
      problem: part && !part.connected ? "unavailable" : wrong(route.topic) ?? kafka,
    };
  });
  targets.sort((a, b) => (b.edge ?? 0) - (a.edge ?? 0) || a.id.localeCompare(b.id));
  const kept = first(targets, "more routes").sort((a, b) => a.id.localeCompare(b.id));
  const toDestinations = (router.outcomes.published ?? 0) - sum(router.routes, "published");
  if (toDestinations > 0) {
    kept.push({
      id: "destinations", column: 4, title: "Topics by address", text: messages(toDestinations),
      edge: Math.max(0, (router.published_per_s ?? 0) - sum(router.routes, "per_s")), problem: kafka,
    });
  }
  const dead = (router.outcomes["dead-lettered"] ?? 0) + (router.outcomes.skipped ?? 0);
  if (dead) {
    kept.push({
      id: "failures", column: 4, title: router.outcomes["dead-lettered"] ? "Dead letters" : "Skipped",
      href: router.outcomes["dead-lettered"] ? "#/dead-letters" : null,
      text: messages(dead), edge: sum(router.routes, "failed_per_s"), problem: null, failing: true,
    });
  }
  return [...nodes, ...kept];
}

function first(nodes, rest) {
  if (nodes.length <= MOST) return nodes;
  const others = nodes.slice(MOST - 1);
  return [
    ...nodes.slice(0, MOST - 1),
    { id: `more ${rest}`, column: others[0].column, title: `${others.length} ${rest}`, text: "", edge: sum(others, "edge"), problem: null },
  ];
}

/** Side by side, in columns. */
function wide(nodes, width) {
  const gap = 14;
  const of = (column) => nodes.filter((node) => node.column === column);
  const rows = Math.max(of(0).length, of(4).length, 3);
  const height = rows * (NODE.h + gap) - gap + 16;
  const middle = height / 2;
  const w = Math.min(NODE.w, (width - 3 * 44) / 4);
  const xs = [1, (width - w) / 3, 0, ((width - w) * 2) / 3, width - w - 1];
  const parts = new Map();
  for (const column of [0, 4]) {
    const group = of(column);
    const top = middle - (group.length * (NODE.h + gap) - gap) / 2;
    group.forEach((node, index) => parts.set(node.id, place(node, xs[column], top + index * (NODE.h + gap), w)));
  }
  for (const column of [1, 3]) of(column).forEach((node) => parts.set(node.id, place(node, xs[column], middle - NODE.h / 2, w)));
  const at = (id) => parts.get(id);
  const [journal, router] = [at("journal"), at("router")];
  for (const node of of(0)) edge(at(node.id), curve(right(at(node.id)), left(journal)));
  for (const node of of(4)) edge(at(node.id), curve(right(router), left(at(node.id))));
  edge(router, curve(right(journal), left(router)));
  for (const node of of(2)) {
    const narrow = w * 0.8;
    const ledger = place(node, (journal.x + router.x + w - narrow) / 2, middle + NODE.h, narrow);
    parts.set(node.id, ledger);
    const [y, bottom] = [ledger.y + NODE.h / 2, journal.y + NODE.h];
    const [from, to] = [journal.x + w * 0.2, router.x + w * 0.8];
    edge(ledger, `M ${from} ${bottom} V ${y - 12} Q ${from} ${y} ${from + 12} ${y} H ${ledger.x}`, "side");
    edge(ledger, `M ${ledger.x + narrow} ${y} H ${to - 12} Q ${to} ${y} ${to} ${y - 12} V ${bottom}`, "side");
  }
  return assemble(parts, width, Math.max(height, middle + NODE.h * 2 + 4));
}

/** One below the other, along a line: for narrow screens. */
function tall(nodes, width) {
  const [rail, gap] = [18, 12];
  const parts = new Map();
  let y = 4;
  for (const node of nodes) {
    const isMain = node.column > 0 && node.column < 4;
    const x = isMain ? 0 : rail * 2;
    parts.set(node.id, place(node, x + 1, y, width - x - 2));
    y += NODE.h + (isMain ? 22 : gap);
  }
  const all = [...parts.values()];
  const [journal, router] = [parts.get("journal"), parts.get("router")];
  for (const part of all) {
    const centre = part.y + NODE.h / 2;
    if (part.node.column === 0) edge(part, `M ${part.x} ${centre} H ${rail + 8} Q ${rail} ${centre} ${rail} ${centre + 8} V ${journal.y}`, "rail");
    else if (part.node.column === 4) edge(part, `M ${rail} ${router.y + NODE.h} V ${centre - 8} Q ${rail} ${centre} ${rail + 8} ${centre} H ${part.x}`, "rail");
    else if (part !== journal) edge(part, `M ${rail} ${all[all.indexOf(part) - 1].y + NODE.h} V ${part.y}`);
  }
  return assemble(parts, width, y);
}

const right = (part) => [part.x + part.w, part.y + NODE.h / 2];
const left = (part) => [part.x, part.y + NODE.h / 2];

function curve([x1, y1], [x2, y2]) {
  const bend = (x2 - x1) / 2;
  return `M ${x1} ${y1} C ${x1 + bend} ${y1}, ${x2 - bend} ${y2}, ${x2} ${y2}`;
}

function place(node, x, y, w) {
  return { node, x, y, w, edges: [] };
}

function edge(part, d, kind = "") {
  part.edges.push({ line: svg("path", { d, class: `edge ${kind}` }), drops: svg("path", { d, class: `drops ${kind}` }) });
}

function assemble(parts, width, height) {
  const [lines, boxes] = [svg("g"), svg("g")];
  const shown = new Map();
  for (const { node, x, y, w, edges } of parts.values()) {
    for (const each of edges) lines.append(each.line, each.drops);
    const title = svg("text", { x: x + 30, y: y + 24, class: "title" });
    const text = svg("text", { x: x + 30, y: y + 42, class: "sub" });
    const figure = svg("text", { x: x + w - 12, y: y + 42, class: "rate", "text-anchor": "end" });
    const tip = svg("title");
    const group = svg(
      node.href ? "a" : "g",
      { class: "node", href: node.href },
      tip,
      svg("rect", { x, y, width: w, height: NODE.h, rx: 10 }),
      svg("circle", { cx: x + 16, cy: y + 19.5, r: 4.5 }),
      title, text, figure,
    );
    boxes.append(group);
    shown.set(node.id, (next) => {
      const moving = (next.edge ?? 0) > 0;
      const figureText = next.edge === null || next.edge === undefined ? "" : rate(next.edge);
      group.setAttribute("class", `node${next.problem ? " bad" : ""}${next.failing ? " failing" : ""}`);
      fit(title, next.title, w - 42);
      fit(text, next.problem ?? next.text, w - 46 - figureText.length * 8.5);
      setText(figure, figureText);
      setText(tip, [next.title, next.problem ?? next.text, figureText].filter(Boolean).join(", "));
      for (const { line, drops } of edges) {
        line.classList.toggle("bad", Boolean(next.problem));
        drops.classList.toggle("moving", moving && !next.problem);
        drops.classList.toggle("fast", next.edge > 1000);
      }
    });
  }
  const element = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "From systems through the journal and the router to topics" },
    lines, boxes,
  );
  return { element, show: (node) => shown.get(node.id)(node) };
}

/** Show as much of a text as there is room for. */
function fit(element, text, room) {
  if (element.whole === text && element.room === room) return;
  Object.assign(element, { whole: text, room });
  element.textContent = text;
  for (let length = text.length; length > 1 && element.getComputedTextLength() > room; length -= 1) {
    element.textContent = `${text.slice(0, length - 1)}…`;
  }
}

/** Short, since the node is narrow: the view of clients has all of it. */
function held(ledger) {
  if (!ledger?.transactions) return "large transactions";
  return `${compact(ledger.transactions)} open, ${duration(ledger.oldest_transaction_s)}`;
}

const messages = (number) => `${compact(number)} ${number === 1 ? "message" : "messages"}`;
const sum = (items, name) => items.reduce((total, item) => total + (item[name] ?? 0), 0);
