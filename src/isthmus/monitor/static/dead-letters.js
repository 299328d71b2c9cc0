// What could not be routed or delivered, by what went wrong. Nothing is done before it was said what it would do.

import { get, post } from "./api.js";
import { count, dateTime, h, plural, setText } from "./dom.js";
import { recordView } from "./record.js";

export function deadLetters({ session, path }) {
  const content = h("div", {}, h("p", { class: "empty" }, "reading the dead letters…"));
  const element = h("div", {}, h("h1", {}, "Dead letters"), content);

  async function load() {
    const { messages } = await session;
    if (!messages) {
      content.replaceChildren(h("p", { class: "empty" }, "Dead letters are messages: set monitor.token to see, replay or drop them here. Every user of this machine can reach this page. ",
        "On the command line, ", h("code", {}, "isthmus dead-letter list"), " needs no token."));
      return;
    }
    try {
      content.replaceChildren(...(path[0] ? await one(path[0], load) : overview(await get("api/dead-letters"), load)));
    } catch (error) {
      content.replaceChildren(h("p", { class: "error" }, error.message));
    }
  }
  load();
  return { element, update() {} };
}

function overview({ topic, groups, total, done, until_ms: until, looked_at: most }, reload) {
  const past = done ? `; ${count(done)} more were replayed, dropped or quarantined` : "";
  if (!total) return [h("p", { class: "empty" }, `None in ${topic}${past}.`)];
  return [
    h("p", { class: "lead" }, `${plural(total, "dead letter")} in ${topic}${past}.${total + done >= most ? ` Of each partition, the last ${count(most)} are looked at.` : ""}`),
    ...groups.map((group) => groupView(group, until, reload)),
  ];
}

function groupView(group, until, reload) {
  const chosen = { route: group.route, code: group.code, reason: group.reason, until_ms: until };
  return h(
    "section",
    { class: "card group" },
    h("header", {},
      h("p", { class: "big" }, count(group.count)),
      h("div", {}, h("h2", {}, group.reason), h("p", { class: "lead" }, group.route ? `route ${group.route} · ` : "", h("code", {}, group.code))),
      actions(chosen, plural(group.count, "dead letter"), reload)),
    h("details", {}, h("summary", {}, group.letters.length < group.count ? `the last ${group.letters.length}` : "each of them"),
      h("ul", { class: "pick" }, group.letters.map((letter) =>
        h("li", {}, h("a", { href: `#/dead-letters/${encodeURIComponent(letter.position)}` },
          h("b", {}, letter.address ?? "no address"),
          h("small", {}, `${dateTime(letter.time_ms)} · ${letter.position.split(":").slice(-2).join(":")}${letter.replays ? ` · replayed ${letter.replays}×` : ""}`)))))),
  );
}

async function one(position, reload) {
  const dead = await get("api/dead-letter", { position });
  return [
    h("p", { class: "crumb" }, h("a", { href: "#/dead-letters" }, "All dead letters")),
    h("section", { class: "card" },
      h("header", {}, h("div", {}, h("h2", {}, dead.reason),
        h("p", { class: "lead" }, `${dateTime(dead.time_ms)} · ${dead.route ? `route ${dead.route} · ` : ""}`, h("code", {}, dead.code))),
        actions({ position, until_ms: dead.time_ms }, "this dead letter", reload)),
      dead.id ? h("p", {}, "The message that failed: ", h("a", { href: `#/explain/${encodeURIComponent(dead.id)}` }, dead.id)) : null,
      dead.history.map((each) => h("p", { class: "empty" }, "before: ", h("code", {}, each))),
      recordView(dead, dead.body === null && dead.size > 0)),
  ];
}

function actions(chosen, what, reload) {
  return h("div", { class: "actions" },
    h("button", { type: "button", onclick: () => confirm("replay", chosen, what, reload) }, "Replay…"),
    h("button", { type: "button", class: "danger", onclick: () => confirm("drop", chosen, what, reload) }, "Drop…"));
}

/** Says what an action would do, and does it when that is confirmed. */
async function confirm(action, chosen, what, reload) {
  const title = action === "replay" ? `Replay ${what}?` : `Drop ${what}?`;
  const text = h("div", {}, h("p", { class: "empty" }, "looking at what that would do…"));
  const go = h("button", { class: action === "drop" ? "danger" : "primary", disabled: true, type: "button" }, action === "replay" ? "Replay" : "Drop");
  const away = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const dialog = h("dialog", { "aria-label": title }, h("h2", {}, title), text, h("div", { class: "actions" }, away, go));
  let isDone = false;
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (isDone) document.getElementById("main").focus(); // the button that had the focus is gone
  });
  document.body.append(dialog);
  dialog.showModal();
  go.addEventListener("click", async () => {
    go.disabled = true;
    try {
      said(await post(`api/${action}`, { ...chosen, dry_run: false }));
      isDone = true;
      go.remove();
      setText(away, "Close");
      away.focus();
      reload();
    } catch (error) {
      text.replaceChildren(h("p", { class: "error" }, error.message));
    }
  });
  const said = ({ counts, reasons, dry_run: dry }) => {
    const parts = Object.entries(counts).filter(([, number]) => number).map(([state, number]) => `${count(number)} ${dry ? "would be " : ""}${state}`);
    text.replaceChildren(
      h("p", {}, parts.length ? `${parts.join(", ")}.` : "There is nothing to do any more."),
      action === "drop" && dry ? h("p", { class: "empty" }, "They are not listed any more, and never replayed. Kafka keeps them as long as the topic's retention says.") : "",
      h("ul", { class: "steps" }, reasons.map(({ count: number, state, reason }) => h("li", {}, `${count(number)}${state === "replayed" ? "" : ` ${state}`}: ${reason}`))));
    return parts.length > 0;
  };
  try {
    go.disabled = !said(await post(`api/${action}`, { ...chosen, dry_run: true }));
    if (!go.disabled) go.focus();
  } catch (error) {
    text.replaceChildren(h("p", { class: "error" }, error.message));
  }
}
