import { el, button, iconButton, byID, fill, notify } from "./dom.js";
import { ask, onRequest } from "./transport.js";
import { onEvents, onFeedState, feed } from "./feed.js";
import { onOutbox, waitingCount } from "./outbox.js";
import { onChat } from "./chat.js";
import { drawRequests, drawEvents, keepEvents } from "./inspector_requests.js";
import { drawLine } from "./inspector_line.js";
import { durationOf, serverNow, sizeOf } from "./format.js";
import { wordsFor } from "./words.js";

// The drawer that shows how Perch works: requests, events, the channel's line, the outbox, the cache and the
// link.

const DRAWER_REDRAW_EVERY = 250;
const TABS = {
  requests: ["Requests", drawRequests], events: ["Events", drawEvents], line: ["Line", drawLine],
  outbox: ["Outbox", drawOutbox], cache: ["Service", drawService],
};
// A change draws only the tab that it concerns, so that a tab's own requests do not draw it without end.
let chosen = "requests", drawerTimer = 0, opener = null;

/** Builds the drawer, closed. */
export function startInspector() {
  const tabs = el("div", { class: "tabs", role: "tablist", "aria-label": "Inspector" },
    Object.entries(TABS).map(([name, [label]]) =>
    button(label, () => chooseTab(name),
      { role: "tab", id: `tab-${name}`, "aria-controls": "drawer-panel" })));
  tabs.addEventListener("keydown", moveTab);
  fill(byID("inspector"),
    el("header", { class: "pane-head" }, el("h2", { class: "title" }, "Inspector"),
      iconButton("close", "Close the inspector", closeDrawer)),
    tabs, el("div", { class: "drawer-panel", id: "drawer-panel", role: "tabpanel", tabindex: "0" }));
  onRequest(() => changedAt("requests"));
  onEvents((events) => {
    keepEvents(events);
    changedAt("events");
    if (events.some(({ type }) => type === "outbox.changed")) changedAt("outbox");
    if (events.some(({ type }) => /^(gap|messages|huge)/.test(type))) changedAt("line");
    if (events.some(({ type }) => /^(connection|sync|cache)/.test(type))) changedAt("cache");
  });
  onOutbox(() => changedAt("outbox"));
  onFeedState(() => changedAt("cache"));
  let shown;
  onChat(() => shown !== location.hash && changedAt("line", shown = location.hash));
}

/** Opens or closes the drawer. */
export function toggleDrawer() {
  if (!byID("inspector").hidden) return closeDrawer();
  opener = document.activeElement;
  byID("inspector").hidden = false;
  document.body.classList.add("inspecting");
  chooseTab(chosen);
  byID(`tab-${chosen}`).focus();
}

/** Closes the drawer. */
export function closeDrawer() {
  if (byID("inspector").hidden) return;
  byID("inspector").hidden = true;
  document.body.classList.remove("inspecting");
  if (opener?.isConnected) opener.focus();
}

function chooseTab(name) {
  chosen = name;
  for (const other of Object.keys(TABS)) {
    byID(`tab-${other}`).setAttribute("aria-selected", String(other === name));
    byID(`tab-${other}`).tabIndex = other === name ? 0 : -1;
  }
  const panel = byID("drawer-panel");
  panel.setAttribute("aria-labelledby", `tab-${name}`);
  panel.replaceChildren();
  TABS[name][1](panel);
}

function moveTab(event) {
  const names = Object.keys(TABS), step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  chooseTab(names[(names.indexOf(chosen) + step + names.length) % names.length]);
  byID(`tab-${chosen}`).focus();
}

function changedAt(name) {
  if (name !== chosen || byID("inspector").hidden) return;
  drawerTimer ||= setTimeout(() => {
    drawerTimer = 0;
    const panel = byID("drawer-panel");
    // While an element of the panel has the focus, the panel is not redrawn: the focus would be lost.
    if (!panel.contains(document.activeElement) || document.activeElement === panel) TABS[chosen][1](panel);
  }, DRAWER_REDRAW_EVERY);
}

/** What Perch has accepted and the chat server not yet. */
async function drawOutbox(panel) {
  const { items } = await ask("GET", "/v1/outbox").catch(() => ({ items: null }));
  const here = waitingCount();
  const rows = (items ?? []).map((row) => el("li", {},
    el("b", {}, row.kind), " ", el("bdi", {}, row.channel_url), " ",
      el("span", { class: "code" }, row.state ?? row.status),
    el("small", { class: "facts-line" }, [
      row.next_try_at && `next try ${durationOf(row.next_try_at - serverNow())}`, row.attempts
        && `${row.attempts} tries`,
      row.blocked_by && `blocked by ${row.blocked_by}`, row.error?.code && `error ${row.error.code}`,
        row.request_id,
    ].filter(Boolean).join(" · "))));
  fill(panel, el("p", { class: "hint" }, "What Perch has accepted and will send, in its order."),
    here ? el("p", {}, `${here} more in this page, because Perch does not answer.`) : null,
    rows.length ? el("ul", { class: "rows" }, rows)
      : el("p", { class: "empty" }, items ? "Nothing is unsent." : "Perch does not answer."));
}

async function drawService(panel) {
  const [cache, connection, demo] = await Promise.all([
    ask("GET", "/v1/cache").catch(() => null), ask("GET", "/v1/connection").catch(() => null),
    fetch("/demo").then((answer) => (answer.ok ? answer.json() : null)).catch(() => null)]);
  if (!cache || !connection) return fill(panel, el("p", { class: "empty" }, "Perch does not answer."));
  const { sync } = connection, part = cache.size_bytes / cache.max_size_bytes;
  const facts = [
    ["You", `${connection.user}, ${connection.state}`],
    ["Sync", `${sync.phase}, ${sync.channels_done} of ${sync.channels_total ?? "?"} channels`],
    ["Unsent", `${connection.unsent.pending} pending, ${connection.unsent.failed} failed`],
    ["Cached", `${cache.channels} channels, ${cache.messages} messages`],
    ["Cache", `${sizeOf(cache.size_bytes)} of ${sizeOf(cache.max_size_bytes)}`],
    ["Stream", feed.isLeading ? "this tab has it, for all tabs" : "another tab has it"],
  ];
  fill(panel, el("dl", { class: "facts" },
    facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    el("meter", { value: String(part), max: "1", high: "0.85", "aria-label": "Cache in use" }), demo
      && demoSwitch(demo, panel));
}

function demoSwitch({ up }, panel) {
  const change = async () => {
    try {
      await ask("PUT", "/demo/upstream", { up: !up });
    } catch (error) {
      notify(wordsFor(error.problem), true);
    }
    await drawService(panel);
    panel.querySelector("[role=switch]")?.focus();
  };
  return el("div", { class: "switch-line" },
    el("button", { type: "button", role: "switch", class: "switch", "aria-checked": String(up),
      onclick: change, id: "demo-switch" },
      el("span", { class: "knob" }), "Chat server of the demo"),
    el("p", { class: "hint" }, up ? "Switch it off, and go on reading and writing."
      : "It is cut off. What you write waits in the outbox."));
}
