// Does with rhea what its arguments say: URL, what, address, how many. Prints a line of JSON for everything
// that happens, and ends when it is done.
"use strict";

const rhea = require("rhea");

const [url, what, address, number] = process.argv.slice(2);
const count = Number(number || 1);
const { hostname, port } = new URL(url);
const LARGE = { large: 300_000, oversize: 2_000_000 };

const container = rhea.create_container({ id: "rhea" });
const options = { host: hostname, port: Number(port), reconnect: false };
if (what === "large") options.max_frame_size = 4096;

const print = (event, more) => console.log(JSON.stringify({ event, ...more }));

function open(connection) {
  switch (what) {
    case "send":
    case "refused":
    case "large":
    case "oversize":
      return connection.open_sender(address);
    case "relay":
      return connection.open_sender({ target: {} });
    default:
      return connection.open_receiver({ source: address, credit_window: 0, autoaccept: false });
  }
}

function message(n) {
  const id = `ID:${n}`;
  if (what in LARGE) return { message_id: id, body: rhea.message.data_section(Buffer.alloc(LARGE[what], n + 1)) };
  const properties = { region: "EU", count: rhea.types.wrap_int(n) };
  return { message_id: id, to: what === "relay" ? address : undefined, application_properties: properties, body: `m${n}` };
}

let sent = 0;
let decided = 0;
let received = 0;

container.on("connection_open", (context) => open(context.connection));

container.on("sender_open", (context) => {
  print("attached", { max_message_size: context.sender.remote.attach.max_message_size });
});

container.on("sendable", (context) => {
  while (context.sender.sendable() && sent < count) context.sender.send(message(sent++));
});

function decide(event) {
  container.on(event, (context) => {
    const error = context.delivery.remote_state.error;
    print(event, error ? { condition: error.condition } : {});
    if (++decided === count) context.connection.close();
  });
}
["accepted", "rejected", "released", "modified"].forEach(decide);

container.on("receiver_open", (context) => context.receiver.add_credit(count));

container.on("message", (context) => {
  const body = context.message.body;
  print("message", { body: Buffer.isBuffer(body.content) ? body.content.toString() : body });
  // The first is given back once: it comes again, at the same place or later.
  if (what === "release" && received === 0) context.delivery.release();
  else context.delivery.accept();
  const wanted = what === "release" ? count + 1 : count;
  if (++received === wanted) context.receiver.close();
  else if (received === count) context.receiver.add_credit(1);
});

container.on("receiver_close", (context) => context.connection.close());

for (const kind of ["sender_error", "receiver_error", "session_error", "connection_error"]) {
  container.on(kind, (context) => {
    const error = (context.sender || context.receiver || context.session || context.connection).error;
    print(kind, { condition: error.condition, description: error.description });
    context.connection.close();
  });
}

container.on("disconnected", (context) => {
  if (context.error) print("disconnected", { description: String(context.error) });
});

container.connect(options);
