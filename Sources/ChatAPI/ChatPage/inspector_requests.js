import { el, button, fill, notify } from "./dom.js";
import { asCurl } from "./as_curl.js";
import { requests } from "./transport.js";
import { clockOf, sizeOf } from "./format.js";

// Two lists of the inspector: the requests of this page, and the events as they came.

const MOST_ROWS = 60, MOST_EVENTS = 200, LONGEST_EVENT = 3000;
const events = [];

/** Keeps events for the list. */
export function keepEvents(batch) {
  events.push(...batch.map((event) => ({ at: Date.now(), event })));
  events.splice(0, events.length - MOST_EVENTS);
}

/** The requests, the newest first. */
export function drawRequests(panel) {
  const rows = requests.slice(-MOST_ROWS).reverse().map((request) => el("li", { class: "request" },
    el("span", { class: `code ${kindOf(request)}` }, statusOf(request)),
    el("span", { class: "what" }, el("b", {}, request.method), " ", request.path),
    el("span", { class: "facts-line" }, [
      request.cache, request.milliseconds !== undefined && `${Math.round(request.milliseconds)} ms`,
      request.bytes && sizeOf(request.bytes),
    ].filter(Boolean).join(" · ")),
    button("as curl", () => copy(asCurl(request)),
      { class: "quiet small", "aria-label": `Copy ${request.method} ${request.path} as curl` })));
  fill(panel, el("p", { class: "hint" }, "Each request of this page. $T stands for the token."),
    el("ul", { class: "rows" }, rows));
}

const statusOf = ({ status, failure }) => (status ? String(status) : failure ? "failed" : "…");
const kindOf = ({ status, failure }) => (failure || status >= 400 ? "bad" : "good");

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    notify("Copied.");
  } catch {
    // If the page may not copy, it shows the text to be copied by hand.
    const shown = el("textarea", { class: "curl", readonly: true, rows: "5", "aria-label": "As curl" });
    shown.value = text;
    document.querySelector(".drawer-panel").prepend(shown);
    shown.select();
  }
}

/** The events, the newest first, each with its content to unfold. */
export function drawEvents(panel) {
  const open = new Set([...panel.querySelectorAll("details[open]")].map((one) => one.dataset.at));
  const rows = events.slice(-MOST_ROWS).reverse().map(({ at, event }) => {
    const id = `${at}${event.type}`, details = el("details", { "data-at": id, open: open.has(id) },
      el("summary", {}, el("b", {}, event.type), " ",
        el("small", {}, [event.source, event.is_realtime && "at once", clockOf(at)]
        .filter(Boolean).join(" · "))));
    const show = () => details.childElementCount < 2 && details.append(
      el("pre", { dir: "auto", tabindex: "0" }, JSON.stringify(event, null, 1).slice(0, LONGEST_EVENT)));
    details.addEventListener("toggle", show);
    if (open.has(id)) show();
    return el("li", {}, details);
  });
  fill(panel, el("p", { class: "hint" }, "What the stream of this user brought, for all tabs."),
    rows.length ? el("ul", { class: "rows" }, rows) : el("p", { class: "empty" }, "No event yet."));
}
