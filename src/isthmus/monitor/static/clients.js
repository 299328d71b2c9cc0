// Who is connected, and what each part that speaks to another system has done.

import { get } from "./api.js";
import { count, duration, h, keyed, ms, plural, rate, setText, size } from "./dom.js";

const LOOK_MS = 2000; // Kafka is asked each time: more often than people read would be too much
const PARTS = ["Part", "System", "State", "In", "Out", "Dead letters", "Connections made, lost", "Request time p50, p99"];

export function clients() {
  const body = h("tbody");
  const none = h("p", { class: "empty" }, "This process speaks to no system but Kafka.");
  const table = h("table", { class: "cards" },
    h("thead", {}, h("tr", {}, PARTS.map((name, index) => h("th", { scope: "col", class: index > 2 ? "number" : null }, name)))), body);
  const connected = h("div", { class: "clients" });
  const [many, open] = [h("span"), h("span")];
  const depths = h("tbody");
  const queues = h("table", { class: "cards", hidden: true },
    h("thead", {}, h("tr", {}, ["Queue or subscription", "Depth", "Receivers"].map((name, index) => h("th", { scope: "col", class: index ? "number" : null }, name)))), depths);
  const amqp = h("section", { hidden: true }, h("h2", {}, "AMQP clients"), h("p", { class: "lead" }, many, " ", open), queues, connected);
  const ledger = h("section", { hidden: true }, h("h2", {}, "Transactions that the ledger holds"), h("p", { class: "lead" }));
  const element = h("div", {}, h("h1", {}, "Clients"),
    h("p", { class: "lead" }, "Connections to NATS, MQ and AMQP, with what went over them since the start."), table, none, amqp, ledger);

  async function look() {
    const found = await get("api/clients");
    amqp.hidden = !found.connected;
    setText(many, `${plural(found.connected, "client is", "clients are")} connected${found.clients.length < found.connected ? `; ${found.clients.length} are shown` : ""}.`);
    queues.hidden = !found.queues.length;
    keyed(depths, found.queues, (each) => `${each.kind} ${each.name}`, queue);
    keyed(connected, found.clients, (each) => `${each.container_id} ${each.address}`, client);
  }
  const quietly = () => look().catch(() => {}); // the frame says that there is no connection
  quietly();
  const timer = setInterval(quietly, LOOK_MS);

  return {
    element,
    update(state) {
      const parts = ["connectors", "intakes", "routes"].flatMap((kind) => state[kind].map((part) => ({ ...part, kind: kind.slice(0, -1) })));
      table.hidden = !parts.length;
      none.hidden = Boolean(parts.length);
      keyed(body, parts, (part) => `${part.kind} ${part.name}`, row);
      ledger.hidden = !state.ledger?.transactions;
      if (!ledger.hidden) setText(ledger.lastElementChild, heldTransactions(state.ledger));
      setText(open, parts.filter((part) => part.transactions).map(openTransactions).join(" "));
    },
    close: () => clearInterval(timer),
  };
}

const heldTransactions = ({ transactions, prepared, oldest_transaction_s: oldest }) =>
  `${plural(transactions, "transaction has", "transactions have")} no outcome in the journal${prepared ? `, ${count(prepared)} of them prepared` : ""}; the oldest began ${duration(oldest)} ago.`;

const openTransactions = ({ transactions, oldest_transaction_s: oldest }) =>
  `${plural(transactions, "transaction is", "transactions are")} open, the oldest for ${duration(oldest)}.`;

const traffic = (messages, perSecond) => (messages ? `${count(messages)} · ${rate(perSecond)}` : "–");

function row(part) {
  const cells = PARTS.slice(1).map((label, index) => h("td", { "data-label": label, class: index > 1 ? "number" : null }, h("span")));
  const bytes = cells.slice(2, 4).map((cell) => cell.appendChild(h("small", { class: "below" })));
  const element = h("tr", {}, h("th", { scope: "row" }, h("b", {}, part.name), h("small", {}, ` ${part.kind}`)), cells);
  return {
    element,
    update(next) {
      const times = next.request_times_ms;
      const texts = [
        next.system,
        next.connected ? "connected" : "unavailable",
        traffic(next.messages_in, next.in_per_s),
        `${traffic(next.messages_out, next.out_per_s)}${next.lag ? ` · lag ${count(next.lag)}` : ""}`,
        count(next.dead_letters),
        `${count(next.connects)}, ${count(next.disconnects)}`,
        times.p50 === undefined ? "–" : `${ms(times.p50)}, ${ms(times.p99)}`,
      ];
      texts.forEach((text, index) => setText(cells[index].firstElementChild, text));
      [next.bytes_in, next.bytes_out].forEach((sum, index) => setText(bytes[index], sum ? size(sum) : ""));
      cells[1].className = next.connected ? "good" : "bad";
      cells[4].classList.toggle("bad", next.dead_letters > 0);
    },
  };
}

function queue({ kind, name }) {
  const [depth, receivers] = ["Depth", "Receivers"].map((label) => h("td", { class: "number", "data-label": label }));
  return {
    element: h("tr", {}, h("th", { scope: "row" }, h("b", {}, name), h("small", {}, ` ${kind}`)), depth, receivers),
    update(next) {
      setText(depth, count(next.depth));
      setText(receivers, count(next.receivers));
    },
  };
}

/** One that is connected, with a line for each of its links. */
function client(first) {
  const links = h("ul");
  const element = h("section", { class: "card" },
    h("h3", {}, first.container_id || "no name", h("small", {}, ` ${first.user} · ${first.address}`)), links);
  return {
    element,
    update({ links: now }) {
      const numbered = now.map((link, index) => ({ ...link, id: `${index} ${link.direction} ${link.address}` }));
      keyed(links, numbered, (link) => link.id, () => {
        const text = h("li");
        return { element: text, update: (link) => setText(text, linkText(link)) };
      });
    },
  };
}

function linkText({ address, direction, credit, deliveries, in_flight: inFlight }) {
  const where = address || (direction === "in" ? "any address" : "nothing");
  const way = direction === "in" ? `sends to ${where}` : `receives from ${where}`;
  return `${way}: ${plural(deliveries, "delivery", "deliveries")}, credit ${count(credit)}${inFlight ? `, ${count(inFlight)} in flight` : ""}`;
}
