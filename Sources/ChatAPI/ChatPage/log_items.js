import { el, button } from "./dom.js";
import { session } from "./session.js";
import { dayOf, dayNumberOf, serverNow, listNames } from "./format.js";
import { wordsFor } from "./words.js";
import { buildGap, isBehind } from "./gaps.js";
import { buildMessage, showPart } from "./message_row.js";
import { keyOfRow } from "./rows.js";
import { nameOfUser, readersOf } from "./people.js";

// The items of a log: messages, days, gaps, the line before unread messages, and the ends.

const GROUP_TIME = 5 * 60_000;
const contents = new WeakMap();

/**
 * The items of a conversation, the oldest first. `memory` keeps what was shown before, so that nothing jumps.
 */
export function itemsOf(talk, memory, shared) {
  const { rows, state, view } = talk, gaps = [...(view?.gaps.values() ?? [])], items = [];
  const lastOwn = rows.findLast((row) => row.message_id && row.sender?.user_id === session.user);
  items.push(...topOf(talk, rows));
  const today = dayNumberOf(serverNow());
  let before = null, unread = talk.parent ? Infinity : talk.unreadFrom;
  for (const row of rows) {
    for (const gap of gaps.filter((one) =>
      isBehind(row, one))) items.push(gapItem(gaps.splice(gaps.indexOf(gap), 1)[0], talk, memory));
    const day = dayNumberOf(row.created_at);
    if (day !== before?.day) items.push({ key: `day:${day}`, kind: "day", parts: [today],
      time: row.created_at });
    if (row.created_at > unread && row.sender?.user_id !== session.user) {
      items.push({ key: "unread", kind: "unread", parts: [] });
      unread = Infinity;
    }
    items.push(messageItem(row, before, { talk, memory, shared, isLastOwn: row === lastOwn }));
    before = { day, row };
  }
  for (const gap of gaps) items.push(gapItem(gap, talk, memory));
  if (state.has_next && view?.connection === "live") items.push(edgeItem("next", talk));
  return items;
}

function messageItem(row, before, { talk, memory, shared, isLastOwn }) {
  const key = keyOfRow(row), last = before?.row;
  // A message that had its sender's name keeps it when older ones come before it.
  if (!memory.headers.get(key)) {
    memory.headers.set(key, !last || last.type === "admin" || last.sender?.user_id !== row.sender?.user_id
      || row.created_at - last.created_at > GROUP_TIME || Boolean(row.parent_message_id));
  }
  const readers = isLastOwn ? readersOf(talk.state.channel, row.created_at, session.user) : [];
  const has = {
    header: memory.headers.get(key), isThread: Boolean(talk.parent),
    isLinkLost: shared.isLinkLost && row.sending_status === "pending",
    readBy: isLastOwn ? (readers.length ? `Read by ${listNames(readers.map(nameOfUser))}` : "Sent") : "",
    mentionsMe: mentionsUser(row),
  };
  // An upload's progress is shown in the existing element: if it were built anew, a press of its button at
  // that moment would be lost.
  const part = row.part !== undefined && row.isWaiting ? Math.round(row.part * 100)
    : shared.percents.get(row.request_id);
  return { key, kind: "message", row, has: { ...has, part }, refresh: (element) => showPart(element, part),
    parts: [contentOf(row), row.entry?.state, part === undefined, ...Object.values(has)] };
}

/** What decides whether a row must be built anew. A row of the view stays one object until it changes. */
function contentOf(row) {
  if (!contents.has(row)) contents.set(row,
    JSON.stringify({ ...row, entry: 0, part: 0, problem: row.problem?.code }));
  return contents.get(row);
}

const mentionsUser = (row) => row.sender?.user_id !== session.user
  && (row.mention_type === "channel"
    || (row.mentioned_users ?? []).some(({ user_id }) => user_id === session.user));

function gapItem(gap, talk, memory) {
  const count = gap.estimated_missing ?? 0;
  memory.missing.set(gap.id, Math.max(count, memory.missing.get(gap.id) ?? 0));
  return {
    key: `gap:${gap.id}`, kind: "gap", gap, channel: talk.channel, missing: memory.missing.get(gap.id),
    parts: [gap.state, gap.reason, gap.estimated_missing],
  };
}

const edgeItem = (side, talk) => ({
  key: `edge:${side}`, kind: "edge", side, parts: [talk.isLoading(side), talk.loadProblem?.code],
});

function topOf(talk, rows) {
  const { view, state, problem } = talk;
  if (problem) return [{ key: "problem", kind: "problem", problem, parts: [problem.code] }];
  if (!view) return [{ key: "opening", kind: "opening", parts: [] }];
  if (view.connection === "lost") return [{ key: "lost", kind: "problem",
    problem: { code: "channel_not_found" }, parts: [] }];
  if (state.has_previous) return [edgeItem("previous", talk)];
  return [{ key: "begin", kind: "begin", isEmpty: !rows.length, isThread: Boolean(talk.parent),
    parts: [!rows.length] }];
}

/** The element of an item. */
export function buildItem(item, talk) {
  if (item.kind === "message") return buildMessage(item.row, item.has, talk.actions);
  if (item.kind === "gap") return buildGap(item);
  if (item.kind === "day") return el("h3", { class: "day" }, el("span", {}, dayOf(item.time)));
  if (item.kind === "unread") return el("p", { class: "unread-line" }, el("span", {}, "New"));
  if (item.kind === "problem") return el("p", { class: "empty" }, wordsFor(item.problem));
  if (item.kind === "opening") return el("p", { class: "empty" }, "Opening…");
  if (item.kind === "begin") return beginOf(item);
  return edgeOf(item, talk);
}

function beginOf({ isEmpty, isThread }) {
  const words = isThread ? "No replies yet." : "Nobody has written here yet.";
  return el("p", { class: isEmpty ? "empty" : "begin" }, isEmpty ? words : isThread ? ""
    : "This is the beginning.");
}

function edgeOf({ side }, talk) {
  if (talk.loadProblem) return el("p", { class: "edge wrong" }, wordsFor(talk.loadProblem));
  const words = side === "previous" ? "Load older messages" : "Load newer messages";
  return el("p", { class: "edge" }, talk.isLoading(side) ? "Loading…"
    : button(words, () => talk.load(side), { class: "quiet", "data-act": "load" }));
}
