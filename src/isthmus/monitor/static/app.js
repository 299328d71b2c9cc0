// The frame: which view is shown, whether the bridge is well, and the stream of figures that all views draw.

import { follow, openSession } from "./api.js";
import { clients } from "./clients.js";
import { deadLetters } from "./dead-letters.js";
import { duration, h, plural, setText } from "./dom.js";
import { explain } from "./explain.js";
import { flow } from "./flow.js";
import { routes } from "./routes.js";

const VIEWS = { flow, routes, explain, "dead-letters": deadLetters, clients };
const STALE_MS = 5000;

const [main, health, problems, about] = ["main", "health", "problems", "about"].map((id) =>
  document.getElementById(id),
);
const session = openSession();
let view = null;
let state = null;
let seenAt = 0;

function show() {
  const [, name, ...rest] = location.hash.split("/");
  const chosen = name in VIEWS ? name : "flow";
  const context = { session, state, path: rest.map(decodeURIComponent) };
  view?.close?.();
  view = VIEWS[chosen](context);
  main.replaceChildren(view.element);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${chosen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (state) view.update(state);
}

function onState(next) {
  if (state && state.versions.isthmus !== next.versions.isthmus) location.reload(); // the page is another, too
  state = next;
  seenAt = Date.now();
  document.body.classList.remove("stale");
  setText(document.getElementById("bridge"), state.bridge);
  showHealth(state.problems);
  setText(about, `isthmus ${state.versions.isthmus ?? ""} · up ${duration(state.uptime_s)}`);
  view.update(state);
}

function showHealth(wrong) {
  const names = Object.keys(wrong);
  health.className = names.length ? "pill bad" : "pill good";
  setText(health, names.length ? plural(names.length, "problem") : "healthy");
  document.title = `${names.length ? "⚠ " : ""}${state.bridge} · Isthmus`;
  problems.hidden = !names.length;
  const told = JSON.stringify(wrong);
  if (problems.dataset.told === told) return;
  problems.dataset.told = told;
  problems.replaceChildren(h("ul", {}, names.map((name) => h("li", {}, h("b", {}, name), ` ${wrong[name]}`))));
}

function lost() {
  if (Date.now() - seenAt < STALE_MS) return;
  document.body.classList.add("stale");
  health.className = "pill lost";
  setText(health, seenAt ? "no connection" : "connecting");
}

addEventListener("hashchange", () => {
  show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
show();
follow(onState, lost);
setInterval(lost, 1000);
