// How the page speaks to the monitor. Addresses are relative, so that it works behind a proxy's prefix.

/** Whoever posts shows this: another site's page may post here too, but cannot read it. */
let key = null;

/** What this monitor lets a page do: `messages` is whether it may see messages, and act on them. */
export async function openSession() {
  const session = await get("api/session");
  key = session.key;
  return session;
}

export const get = (path, parameters) =>
  ask(parameters ? `${path}?${new URLSearchParams(parameters)}` : path, {});

export const post = (path, body) =>
  ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Isthmus-Key": key },
    body: JSON.stringify(body),
  });

async function ask(path, options) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  const text = await answer.text();
  if (!answer.ok) throw new Error(reason(text) || `the monitor answers ${answer.status}`);
  return JSON.parse(text);
}

function reason(text) {
  try {
    return JSON.parse(text).error;
  } catch {
    return text.trim();
  }
}

/** Calls `onState` with every document, and `onLost` when there is no connection; it connects again by itself. */
export function follow(onState, onLost) {
  const events = new EventSource("api/feed");
  events.onopen = () => openSession().catch(onLost); // a bridge that was started again has another key
  events.onmessage = (event) => onState(JSON.parse(event.data));
  events.onerror = onLost;
}
