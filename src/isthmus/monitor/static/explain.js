// Where a message goes and why: one that is typed, one of the journal, or the last ones by a changed route.

import { get, post } from "./api.js";
import { count, dateTime, h, plural } from "./dom.js";
import { recordView } from "./record.js";

const OUTCOMES = {
  unmatched: "No route takes it: it stays in the journal.",
  looped: "This bridge published it itself: it is left.",
  "non-durable": "It is not durable, and routing.non-durable is skip: it stays in the journal.",
  expired: "Its Expiration is past: it stays in the journal.",
  ignored: "Not a message for the router: a tombstone, or a record for the ledger.",
  skipped: "A soft failure: it is skipped, and stays in the journal.",
  stopped: "A soft failure that stops the bridge.",
};

/** The route of the bridge's own by which a message is also where a JMS client sent it. */
const DESTINATIONS = "isthmus.destinations";

export function explain({ session, path }) {
  const answer = h("div", { class: "answer", "aria-live": "polite" },
    h("p", { class: "empty" }, "Which route takes a message, and why each earlier one does not, term by term. Nothing is published."));
  const address = h("input", { name: "address", required: true, autocomplete: "off", spellcheck: "false", placeholder: "orders" });
  const headers = h("textarea", { name: "headers", rows: 4, spellcheck: "false", placeholder: "region: EU\namount: {long: 42}" });
  const body = h("textarea", { name: "body", rows: 5, spellcheck: "false" });
  const form = h(
    "form",
    { class: "stack", onsubmit: (event) => { event.preventDefault(); typed(); }, onkeydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    } },
    field("Address", address),
    field("Headers", headers, "one a line, name: value"),
    field("Body", body),
    h("button", { class: "primary" }, "Explain"),
  );
  const pasted = h("textarea", { rows: 4, spellcheck: "false", "aria-label": "A line of isthmus receive --json" });
  const paste = h("details", {}, h("summary", {}, "Or paste a captured record"),
    h("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); ask({ captured: pasted.value }); } },
      h("p", { class: "empty" }, "A line of ", h("code", {}, "isthmus receive --json"), " on the journal or a source topic."), pasted, h("button", {}, "Explain it")));
  const picker = h("div", { class: "stack" }, paste);
  const change = h("div", { class: "stack" });
  const element = h(
    "div",
    {},
    h("h1", {}, "Explain"),
    h("div", { class: "columns" }, h("div", {}, form, picker), answer),
    h("h2", {}, "Change a route"),
    h("p", { class: "lead" }, "See what another predicate, or another key, would have done with the last messages. The bridge goes on as it is."),
    change,
  );

  async function ask(question) {
    answer.replaceChildren(h("p", { class: "empty" }, "asking…"));
    try {
      answer.replaceChildren(...explained(await post("api/explain", question)));
    } catch (error) {
      answer.replaceChildren(h("p", { class: "error" }, error.message));
    }
  }
  const typed = () => ask({ address: address.value, headers: headers.value, body: body.value === "" ? null : body.value });
  const picked = (position) => ask({ position });

  const changer = changing();
  session.then(({ messages }) => {
    if (messages) {
      picker.append(journal(picked));
      change.append(changer.element);
    } else {
      const why = "Messages of the journal are shown to those who have a token: set monitor.token.";
      picker.append(h("p", { class: "empty" }, why));
      change.append(h("p", { class: "empty" }, why));
    }
    if (path[0]) picked(path[0]);
  });
  return { element, update: ({ router }) => changer.offer(router.routes) };
}

function field(label, input, hint) {
  return h("label", {}, h("span", {}, label, hint ? h("small", {}, ` ${hint}`) : null), input);
}

function journal(picked) {
  const list = h("ul", { class: "pick" });
  async function load() {
    try {
      const found = await get("api/journal");
      list.replaceChildren(...(found.length ? found.map((each) =>
        h("li", {}, h("button", { type: "button", onclick: () => picked(each.position) },
          h("b", {}, each.address || "no address"), h("small", {}, `${dateTime(each.time_ms)} · ${each.position.split(":").slice(-2).join(":")}`)))) :
        [h("li", { class: "empty" }, "The journal is empty.")]));
    } catch (error) {
      list.replaceChildren(h("li", { class: "error" }, error.message));
    }
  }
  return h("details", { ontoggle: (event) => event.target.open && load() }, h("summary", {}, "Or pick one from the journal"), list);
}

function explained(found) {
  const headers = found.headers.map(([name, value]) => `${name}: ${value}`).join(", ");
  return [
    h("h2", {}, found.address ?? "A record that cannot be read", found.position ? h("small", {}, ` ${found.position}`) : null),
    headers ? h("p", { class: "lead" }, headers) : null,
    h("ol", { class: "tried" }, found.routes.map((route) =>
      h("li", { class: route.takes ? "yes" : "no" },
        h("p", {}, mark(route.takes), h("b", {}, route.name), route.takes ? " takes it" : " does not take it"),
        h("ul", {}, term(route.term)),
        route.why_not ? h("p", { class: "empty" }, route.why_not) : null))),
    ...found.results.map(result),
    ...found.assumed.map((each) => h("p", { class: "empty" }, each)),
  ].filter(Boolean);
}

const mark = (holds) => h("span", { class: holds ? "mark yes" : "mark no", role: "img", "aria-label": holds ? "holds" : "does not hold" }, holds ? "✓" : "✗");

function term({ text, holds, field: name, found, terms }) {
  const value = name === null ? null : found === null ? "is not there" : `is ${JSON.stringify(found)}`;
  return h("li", {}, mark(holds), h("code", {}, text), value ? h("small", {}, ` ${name.replace(/^msg\.(header\.)?/, "")} ${value}`) : null,
    terms.length ? h("ul", {}, terms.map(term)) : null);
}

function result(each) {
  const by = each.route === DESTINATIONS ? ", since it was sent there," : each.route ? ` by ${each.route}` : "";
  const key = each.key_from ? `, key from ${each.key_from}` : "";
  const partition = each.partition === null ? "" : `, partition ${each.partition}`;
  return h(
    "section",
    { class: `card ${each.code ? "failing" : ""}` },
    each.code ? h("p", { class: "bad" }, `Soft failure${by}: ${each.reason} `, h("code", {}, each.code)) : null,
    each.topic
      ? [h("p", {}, `${each.outcome}${by} to `, h("b", {}, each.topic), `${partition}${key}`), recordView({ ...each, body: each.value }, each.hidden)]
      : h("p", {}, OUTCOMES[each.outcome] ?? each.outcome),
  );
}

function changing() {
  const said = h("div", { "aria-live": "polite" });
  const predicate = h("textarea", { rows: 3, spellcheck: "false", required: true });
  const key = h("input", { name: "key", autocomplete: "off", spellcheck: "false", placeholder: "the message id" });
  const choice = h("select", { onchange: fill });
  let routes = [];
  function fill() {
    const chosen = routes.find((route) => route.name === choice.value);
    predicate.value = chosen?.predicate ?? "";
    key.value = chosen?.key ? headerField(chosen.key) : "";
  }
  function offer(next) {
    const before = choice.value;
    routes = next;
    const names = routes.map((route) => route.name);
    if (names.join("\n") === [...choice.options].map((option) => option.value).join("\n")) return;
    choice.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    if (names.includes(before)) choice.value = before;
    else fill();
  }
  async function attempt(event) {
    event.preventDefault();
    said.replaceChildren(h("p", { class: "empty" }, "asking…"));
    try {
      said.replaceChildren(...tried(choice.value, await post("api/try-route", { route: choice.value, predicate: predicate.value, key: key.value })));
    } catch (error) {
      said.replaceChildren(h("pre", { class: "error" }, error.message)); // a caret is below what it is about
    }
  }
  const element = h("form", { class: "stack wide", onsubmit: attempt }, field("Route", choice), field("Predicate", predicate), field("Key", key, "msg.header.Name"),
    h("button", { class: "primary" }, "Try it on the last messages"), said);
  return { element, offer };
}

/** A header as predicates and keys spell it. */
const headerField = (name) => `msg.header.${/^[A-Za-z_$][\w$.-]*$/.test(name) ? name : `"${name}"`}`;

function tried(name, { tried: all, took, takes, rekeyed, changes, examples }) {
  const summary = h("p", {}, `Of the last ${plural(all, "message")}, ${name} took ${count(took)}; it would take `, h("b", {}, count(takes)), ".");
  if (rekeyed) summary.append(` ${plural(rekeyed, "message")} would have another key.`);
  if (!changes.length) return [summary, h("p", { class: "empty" }, "Nothing would go elsewhere.")];
  return [
    summary,
    h("table", { class: "cards" },
      h("thead", {}, h("tr", {}, ["Messages", "Now", "Then", "For example"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, changes.map((change) => {
        const example = examples.find((each) => each.before === change.before && each.after === change.after);
        return h("tr", {}, h("td", { "data-label": "Messages" }, count(change.count)), h("td", { "data-label": "Now" }, change.before),
          h("td", { "data-label": "Then" }, change.after),
          h("td", { "data-label": "For example" }, example ? h("a", { href: `#/explain/${encodeURIComponent(example.position)}` }, example.address) : ""));
      }))),
  ];
}
