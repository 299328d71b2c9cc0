// A record for people: its key, its headers and its body, or why that is not shown.

import { h, size } from "./dom.js";

export const HIDDEN = "hidden: monitor.show-bodies is false";

/** `record` has key, headers, size and body; `isHidden` is whether there is a body that may not be seen. */
export function recordView({ key, headers, size: bytes, body }, isHidden) {
  return h(
    "dl",
    { class: "record" },
    pair("key", key === null ? h("i", {}, "none") : h("code", {}, key)),
    headers.map(([name, value]) => pair(name, value === null ? h("i", {}, "null") : h("code", {}, value))),
    pair(
      "body",
      isHidden ? h("i", {}, `${size(bytes)}, ${HIDDEN}`) : body === null ? h("i", {}, "none") : h("pre", { tabindex: 0 }, body),
    ),
  );
}

const pair = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
