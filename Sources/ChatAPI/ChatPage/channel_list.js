import { el, button, fill, byID } from "./dom.js";
import { ChannelView } from "./channel_view.js";
import { avatarOf } from "./message_row.js";
import { nameOfChannel, nameOfPerson, shortTimeOf } from "./format.js";
import { notePerson } from "./people.js";
import { wordsFor } from "./words.js";
import { session } from "./session.js";

// The list of channels at the side: order and filters, unread counts, and each channel's state.

const PAGE = 30, LIST_REDRAW_EVERY = 40, TYPING_PAUSE = 250;
const LABELS = { frozen: "Frozen", muted: "Muted", invited: "Invited" };
const channelListeners = [];
let view = null, listTimer = 0, openChannel = "", choose = () => {};

/** Calls `listener()` when channels change. */
export const onChannels = (listener) => channelListeners.push(listener);
/** A channel of the list. */
export const channelOf = (url) => view?.get(url);
/** How many messages are unread in the listed channels. */
export const unreadCount = () =>
  (view?.channels ?? []).reduce((sum, one) => sum + one.unread_message_count, 0);

/** Begins the list. `chosen(url)` is called when a channel is picked. */
export function startChannelList(chosen) {
  choose = chosen;
  const form = byID("filters");
  let wait = 0;
  form.addEventListener("input", (event) => {
    clearTimeout(wait);
    wait = setTimeout(openList, event.target.type === "search" ? TYPING_PAUSE : 0);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  byID("channels").addEventListener("keydown", moveByKey);
  openList();
}

/** Marks the channel that is open. */
export function markOpenChannel(url) {
  openChannel = url;
  redraw();
}

function openList() {
  const { order, name, unread, state, frozen, empty } = Object.fromEntries(new FormData(byID("filters")));
  const query = {
    order, limit: PAGE, include_empty: Boolean(empty), include_frozen: Boolean(frozen), member_state: state,
    unread: unread ? "unread_message" : "all", ...(name.trim() && { name_contains: name.trim() }),
  };
  view?.close();
  view = new ChannelView(query, redraw);
}

function redraw() {
  listTimer ||= setTimeout(() => {
    listTimer = 0;
    draw();
    channelListeners.forEach((listener) => listener());
  }, LIST_REDRAW_EVERY);
}

function draw() {
  const list = byID("channels"), focused = list.contains(document.activeElement)
    && document.activeElement.dataset.url;
  const { channels } = view;
  const rows = channels.map((channel) => el("li", {}, rowOf(channel)));
  fill(list, ...rows);
  list.querySelector("button[aria-current]")?.setAttribute("tabindex", "0");
  if (!list.querySelector("[tabindex='0']")) list.querySelector("button")?.setAttribute("tabindex", "0");
  if (focused !== false) [...list.querySelectorAll("button")].find((one) =>
    one.dataset.url === focused)?.focus();
  fill(byID("channels-end"), endOf(channels));
}

function endOf(channels) {
  if (view.problem && !view.isOpen) return el("p", { class: "empty" }, wordsFor(view.problem));
  if (!view.isOpen) return el("p", { class: "empty" }, "Loading channels…");
  if (view.hasNext) return button(view.isLoading ? "Loading…" : "More channels", () => view.more(),
    { class: "quiet" });
  if (!channels.length) return el("p", { class: "empty" }, view.isComplete ? "No channels here."
    : "Your channels are being fetched…");
  return view.isComplete ? null : el("p", { class: "empty" }, "More channels are being fetched…");
}

function rowOf(channel) {
  const { channel_url: url, unread_message_count: unread, unread_mention_count: mentions } = channel;
  const name = nameOfChannel(channel), last = channel.last_message;
  notePerson(last?.sender);
  const badges = [
    mentions > 0 && el("span", { class: "badge mention-count", title: "Mentions you" }, `@${mentions}`),
    unread > 0 && el("span", { class: "badge", title: "Unread" }, unread > 99 ? "99+" : String(unread)),
  ];
  const flags = Object.entries({ frozen: channel.is_frozen, muted: channel.my_muted,
    invited: channel.my_member_state === "invited" })
    .filter(([, is]) => is).map(([flag]) => el("span", { class: "flag" }, LABELS[flag]));
  const label = [name, unread && `${unread} unread`, mentions
    && `${mentions} mentions`].filter(Boolean).join(", ");
  return el("button", {
    type: "button", class: unread ? "channel unread" : "channel", "data-url": url, tabindex: "-1",
      "aria-label": label.slice(0, 300),
    "aria-current": url === openChannel ? "true" : null, onclick: () => choose(url),
  }, avatarOf(url, name), el("span", { class: "channel-text" },
    el("span", { class: "channel-top" }, el("bdi", { class: "channel-name" }, name), flags,
      last && el("time", {}, shortTimeOf(last.created_at))),
    el("span", { class: "channel-bottom" }, el("span", { class: "last", dir: "auto" }, lastText(channel)),
      badges)));
}

function lastText({ last_message: last, my_member_state: state, inviter }) {
  if (state === "invited") return inviter ? `${nameOfPerson(inviter)} invited you` : "You are invited";
  if (!last) return "Nobody has written yet";
  const who = last.sender ? (last.sender.user_id === session.user ? "You: "
    : `${nameOfPerson(last.sender)}: `) : "";
  return `${who}${last.message || last.file?.name || "…"}`.slice(0, 160);
}

function moveByKey(event) {
  const all = [...byID("channels").querySelectorAll("button")], at = all.indexOf(event.target);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (at < 0 || to === undefined || !all[to]) return;
  event.preventDefault();
  all[at].tabIndex = -1;
  all[to].tabIndex = 0;
  all[to].focus();
}
