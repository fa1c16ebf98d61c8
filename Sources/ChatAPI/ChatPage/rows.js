import { entriesOf } from "./outbox.js";
import { session } from "./session.js";

// The rows that a chat shows: those of its view, with the user's actions that Perch has not answered yet.

/** The name under which a row stays the same until it is confirmed. Two users may use one request_id. */
export const keyOfRow = (row) => (row.request_id ? `${row.sender?.user_id}/${row.request_id}` : row.message_id);

/** The view's rows and the entries of this tab, each message once. */
export function rowsWithEntries(rows, channel, parent) {
  const entries = entriesOf(channel), keys = new Set(rows.map(keyOfRow));
  const unsent = entries.filter(({ kind, body }) => kind === "send" && belongs(body, parent)).map(rowOfEntry)
    .filter((row) => !keys.has(keyOfRow(row)));
  const changes = entries.filter((entry) => entry.kind !== "send" && entry.kind !== "read");
  const all = [...rows, ...unsent];
  return changes.length ? all.map((row) => withChanges(row, changes)) : all;
}

/** Whether a message that is written belongs to a thread, or to the channel itself. */
function belongs(body, parent) {
  return parent ? body.parent_message_id === parent : !body.parent_message_id || body.is_reply_to_channel;
}

function withChanges(row, changes) {
  const own = changes.filter(({ target }) => target === row.message_id || target === row.request_id);
  return own.length ? own.reduce(withChange, row) : row;
}

function withChange(row, { id, kind, body, reaction, state }) {
  // The removal is done: the message is taken back.
  if (kind === "remove" && state === "accepted" && row.sending_status === "canceled") return row;
  if (kind === "edit") return { ...row, pending_edit: { request_id: id, changes: body } };
  if (kind === "delete" || kind === "remove") return { ...row, pending_delete: { request_id: id } };
  if (kind === "resend") return { ...row, sending_status: "pending" };
  const change = { request_id: id, key: reaction, changes: { add: kind === "react" } };
  return { ...row, pending_reactions: [...(row.pending_reactions ?? []), change] };
}

/** An entry as the message that it will be. */
function rowOfEntry(entry) {
  const { id, channel, body, file, at, state, problem, part } = entry;
  return {
    ...body, message: body.message ?? "", message_id: "", request_id: id, channel_url: channel,
    type: file ? "file" : "user", file: file && { ...file, url: "" },
    sender: { user_id: session.user }, created_at: at, updated_at: 0, reactions: [],
    sending_status: state === "refused" ? "failed" : "pending", entry, problem, part,
    isWaiting: state === "waiting",
  };
}

/** The keys of a row's reactions, who gave each, and whether a change of it waits. */
export function reactionsOf(row) {
  const users = new Map((row.reactions ?? []).map(({ key, user_ids }) => [key, new Set(user_ids)]));
  const waiting = new Set();
  for (const { key, changes } of row.pending_reactions ?? []) {
    if (!users.has(key)) users.set(key, new Set());
    users.get(key)[changes.add ? "add" : "delete"](session.user);
    waiting.add(key);
  }
  return [...users].filter(([, ids]) => ids.size).map(([key, ids]) => (
    { key, count: ids.size, isOwn: ids.has(session.user), isWaiting: waiting.has(key), users: [...ids] }));
}

/** The text that a row shows: its own, or that of an edit that waits. */
export const textOf = (row) => row.pending_edit?.changes?.message ?? row.message ?? "";
