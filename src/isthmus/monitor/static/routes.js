// All routes with their counts, or one with the last hour.

import { get } from "./api.js";
import { chart } from "./chart.js";
import { clock, count, h, keyed, ms, rate, setText, size } from "./dom.js";
import { recordView } from "./record.js";

const HISTORY_MS = 10_000;

/** What routing one message takes is less than a millisecond on most machines. */
const microseconds = (milliseconds) => (milliseconds === null || milliseconds >= 1 ? ms(milliseconds) : `${(milliseconds * 1000).toFixed(0)} µs`);

export const routes = (context) => (context.path.length ? one(context.path[0], context) : all());

function all() {
  const body = h("tbody");
  const none = h("p", { class: "empty" }, "No routes here: either the configuration has none, or the router runs in another process.");
  const table = h(
    "table",
    { class: "cards" },
    h("thead", {}, h("tr", {}, ["Route", "Destination", "Rate", "Published", "Failed", "Latency p50, p99"].map((name, index) =>
      h("th", { scope: "col", class: index > 1 ? "number" : null }, name)))),
    body,
  );
  const element = h("div", {}, h("h1", {}, "Routes"), h("p", { class: "lead" }, "Tried in this order; the first that matches takes the message."), table, none);
  return {
    element,
    update({ router }) {
      table.hidden = !router.routes.length;
      none.hidden = Boolean(router.routes.length);
      keyed(body, router.routes, (route) => route.name, row);
    },
  };
}

const latencies = ({ p50_ms: p50, p99_ms: p99 }) => (p50 === null || p50 === undefined ? "–" : `${ms(p50)}, ${ms(p99)}`);

function row(route) {
  const cells = ["Rate", "Published", "Failed", "Latency p50, p99"].map((label) => h("td", { class: "number", "data-label": label }));
  const predicate = h("code", { class: "predicate" });
  const destination = h("td", { "data-label": "Destination" });
  const element = h(
    "tr",
    {},
    h("th", { scope: "row" }, h("a", { href: `#/routes/${encodeURIComponent(route.name)}` }, route.name), predicate),
    destination,
    cells,
  );
  return {
    element,
    update(next) {
      setText(predicate, next.predicate);
      setText(destination, next.destination ?? next.topic);
      [rate(next.per_s), count(next.published), count(next.failed), latencies(next)].forEach((text, index) => setText(cells[index], text));
      cells[2].classList.toggle("bad", next.failed > 0);
    },
  };
}

function one(name, { session }) {
  const figures = h("dl", { class: "figures" });
  const facts = h("dl", { class: "facts" });
  const predicate = h("code", { class: "predicate" });
  const throughput = chart("Throughput", [{ name: "published", class: "first", area: true }, { name: "failed", class: "failed" }], rate, "Nothing yet.");
  const latency = chart("Latency", [{ name: "p50", class: "first" }, { name: "p99", class: "second" }], ms, "None was measured: one message in a hundred is.");
  const missing = h("p", { class: "empty", hidden: true }, "There is no such route.");
  const element = h(
    "div",
    {},
    h("p", { class: "crumb" }, h("a", { href: "#/routes" }, "Routes")),
    h("h1", {}, name),
    predicate, missing, figures, throughput.element, latency.element, facts,
    h("h2", {}, "Last messages"),
    lastMessages(name, session),
  );

  async function load() {
    const { points } = await get("api/history", { route: name });
    throughput.show(points.map(([time, published, failed]) => [time, published, failed]));
    latency.show(points.map(([time, , , p50, p99]) => [time, p50, p99]));
  }
  const quietly = () => load().catch(() => {}); // the frame says that there is no connection
  quietly();
  const timer = setInterval(quietly, HISTORY_MS);

  return {
    element,
    update({ router }) {
      const route = router.routes.find((each) => each.name === name);
      missing.hidden = Boolean(route);
      if (!route) return;
      setText(predicate, route.predicate);
      pairs(figures, [["rate", rate(route.per_s)], ["published", count(route.published)], ["failed", count(route.failed)],
        ["latency p50, p99", latencies(route)], ["routing, average", microseconds(route.routing_ms)]]);
      pairs(facts, [["topic", route.topic || "the one that the address names"], ...(route.destination ? [["destination", route.destination]] : []),
        ["converter", route.convert], ["key", route.key ? `msg.header.${route.key}` : "the message id"],
        ["records in the topic", count(route.in_topic)]]);
    },
    close() {
      clearInterval(timer);
      throughput.close();
      latency.close();
    },
  };
}

/** What the route has published last. It is read from Kafka, so only when somebody asks. */
function lastMessages(name, session) {
  const content = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "button", onclick: load }, "Read them again");
  async function load() {
    try {
      const { messages } = await session;
      if (!messages) {
        content.replaceChildren(h("p", { class: "empty" }, "Messages are shown to those who have a token: set monitor.token."));
        button.hidden = true;
        return;
      }
      content.replaceChildren(...published(await get("api/messages", { route: name })));
    } catch (error) {
      content.replaceChildren(h("p", { class: "error" }, error.message));
    }
  }
  load();
  return h("div", { class: "stack" }, content, h("p", {}, button));
}

function published({ messages, bodies, shared_with: others }) {
  const shared = others.length ? [h("p", { class: "lead" }, `Its topic is also that of ${others.join(", ")}: their messages are among these.`)] : [];
  if (!messages.length) return [...shared, h("p", { class: "empty" }, "None are in the topic.")];
  return [
    ...shared,
    ...messages.map((each) => h("details", { class: "message" },
      h("summary", {}, h("time", {}, clock(each.time_ms)), h("code", {}, each.key ?? "no key"), h("small", {}, size(each.size))),
      recordView(each, !bodies && each.size > 0),
      origin(each))),
  ];
}

function origin({ headers }) {
  const [, id] = headers.find(([name]) => name === "isthmus.id") ?? [];
  return id ? h("p", {}, h("a", { href: `#/explain/${encodeURIComponent(id)}` }, "Why did it go here?")) : null;
}

function pairs(list, items) {
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
