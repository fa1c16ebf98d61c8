import { ask, channelPath, watchForm } from "./transport.js";
import { session, onNewToken } from "./session.js";
import { TAB, livingTabs, onFeedState, feed } from "./feed.js";
import { keepFile, readFile, forgetFile } from "./file_store.js";
import { wordsFor } from "./words.js";
import { notify } from "./dom.js";

// What the user did and Perch has not accepted yet. Each entry is in localStorage before it is tried, with
// the request_id that makes it happen once, however often it is tried. Entries are sent in order; those with
// files are sent at the same time. An entry that Perch accepted is shown until the view has the message. The
// inspector shows Perch's own outbox, which comes after this one.

const PAUSES = [300, 600, 1200, 2400], SHOWN_AFTER_ANSWER = 4000;

// The entries of this tab, oldest first.
let entries = [];
const outboxListeners = [], uploads = new Map();
// Functions that end the pauses before the next tries.
const resting = new Set(), wakeUp = () => resting.forEach((go) => go());
let isSending = false;

const key = () => `perch.unsent.${session.user}`;
const newRequestID = () => `page-${Date.now()}-${Math.random().toString(36).slice(2, 10)}`;

/** Calls `listener()` when an entry comes, changes or goes. */
export const onOutbox = (listener) => outboxListeners.push(listener);
/** The entries of one channel. */
export const entriesOf = (channel) => entries.filter((entry) => entry.channel === channel);
/** How many wait for Perch. */
export const waitingCount = () => entries.filter(({ state }) => state === "waiting").length;

/** Takes over entries that an earlier page left, and sends whenever possible. */
export async function startOutbox() {
  onNewToken(() => wakeUp());
  addEventListener("online", () => wakeUp());
  onFeedState(() => feed.isOpen && adopt());
  onFeedState(() => entries.filter(({ state }) => state === "accepted").forEach(forgetLater));
  await adopt();
}

/** Sends a new message: the fields of a NewMessage, with or without a file. */
export async function sendMessage(channel, fields, file) {
  const id = newRequestID(), body = { request_id: id, ...fields };
  const entry = { id, channel, kind: "send", method: "POST", path: channelPath(channel, "/messages"), body };
  if (file) {
    entry.file = { name: file.name, mime: file.type, size: file.size };
    entry.blob = file;
    await keepFile(id, file).catch(() => {});
  }
  add(entry);
}

/** Makes a change of a message. `kind`: edit, delete, react, unreact, resend, remove. */
export function changeMessage(channel, row, kind, { body, reaction } = {}) {
  const name = row.message_id || `request_id:${row.request_id}`;
  const ends = { resend: "/resend", react: `/reactions/${encodeURIComponent(reaction)}` };
  const method = { edit: "PATCH", resend: "POST", react: "PUT" }[kind] ?? "DELETE";
  const path = channelPath(channel, `/messages/${name}${ends[kind === "unreact" ? "react" : kind] ?? ""}`);
  add({ id: newRequestID(), channel, kind, method, path, body, reaction, target: row.message_id
    || row.request_id });
}

/** Marks a channel as read. */
export function markAsRead(channel) {
  if (entries.some((entry) => entry.kind === "read" && entry.channel === channel
    && entry.state === "waiting")) return;
  add({ id: newRequestID(), channel, kind: "read", method: "POST", path: channelPath(channel, "/read") });
}

/**
 * Drops an entry that Perch has not accepted. A send that was tried may have arrived, so it is taken
 * back.
 */
export function dropEntry(entry) {
  uploads.get(entry.id)?.abort();
  remove(entry);
  if (entry.tries && entry.kind === "send" && entry.state === "waiting") {
    changeMessage(entry.channel, { request_id: entry.id }, "remove");
  }
}

/** Tries a refused entry again. */
export function retryEntry(entry) {
  Object.assign(entry, { state: "waiting", problem: undefined });
  outboxChanged();
}

/** Forgets an accepted entry when the view shows its message. */
export function settleEntries(channel, rows) {
  const accepted = entriesOf(channel).filter(({ state }) => state === "accepted");
  if (!accepted.length) return;
  const names = new Set(rows.flatMap((row) => [row.request_id, row.message_id]));
  const done = accepted.filter(({ id, answer }) => names.has(id)
    || (answer?.message_id && names.has(answer.message_id)));
  if (done.length) entries = entries.filter((entry) => !done.includes(entry));
}

function add(entry) {
  entries.push({ at: Date.now(), state: "waiting", tab: TAB, tries: 0, ...entry });
  outboxChanged();
}

function remove(entry) {
  entries = entries.filter((other) => other !== entry);
  if (entry.file) forgetFile(entry.id);
  outboxChanged();
}

function outboxChanged() {
  save();
  outboxListeners.forEach((listener) => listener());
  wakeUp();
  sendAll();
}

const readStored = () => JSON.parse(localStorage.getItem(key()) ?? "[]");

/** Stores this tab's entries beside those of other tabs. Accepted ones are not stored: Perch has them. */
function save() {
  const kept = entries.filter(({ state }) => state !== "accepted").map(({ blob, part, answer, ...entry }) =>
    entry);
  const own = new Set(entries.map(({ id }) => id));
  const all = [...readStored().filter(({ id, tab }) => tab !== TAB && !own.has(id)), ...kept];
  if (all.length) localStorage.setItem(key(), JSON.stringify(all));
  else localStorage.removeItem(key());
}

/** Takes entries of tabs that were closed. */
async function adopt() {
  const living = await livingTabs(), mine = new Set(entries.map(({ id }) => id));
  const orphans = readStored().filter(({ id, tab }) => !mine.has(id) && (tab === TAB || !living.has(tab)));
  for (const entry of orphans) if (entry.file) entry.blob = await readFile(entry.id);
  entries.push(...orphans.map((entry) => ({ ...entry, tab: TAB })));
  outboxChanged();
}

/** Sends waiting entries one after another, those with files at the same time. */
async function sendAll() {
  for (const entry of entries) if (entry.file && entry.state === "waiting"
    && !uploads.has(entry.id)) sendUntilDone(entry);
  if (isSending) return;
  isSending = true;
  for (let next; (next = entries.find((entry) => entry.state === "waiting"
    && !entry.file));) await sendUntilDone(next);
  isSending = false;
}

async function sendUntilDone(entry) {
  const stop = new AbortController();
  if (entry.file) uploads.set(entry.id, stop);
  while (entries.includes(entry) && entry.state === "waiting") {
    const pause = PAUSES[Math.min(entry.tries++, PAUSES.length - 1)];
    try {
      accept(entry, await attempt(entry, stop.signal));
    } catch (error) {
      if (error.passes && !stop.signal.aborted) await pauseUnlessWoken(Math.max(pause,
        1000 * error.retryAfter));
      else if (!stop.signal.aborted) refuse(entry, error);
    }
  }
  uploads.delete(entry.id);
}

function attempt(entry, signal) {
  if (!entry.file) return ask(entry.method, entry.path, entry.body, entry.id);
  if (!entry.blob) throw Object.assign(new Error(), { problem: { code: "file_missing", detail: "" } });
  const form = new FormData();
  form.append("params", JSON.stringify(entry.body));
  form.append("file", entry.blob, entry.file.name);
  watchForm(form, (part) => { entry.part = part; outboxListeners.forEach((listener) => listener()); },
    signal);
  return ask(entry.method, entry.path, form, entry.id, 3600);
}

async function pauseUnlessWoken(milliseconds) {
  let wake;
  await new Promise((go) => {
    wake = go;
    resting.add(go);
    setTimeout(go, milliseconds);
  });
  resting.delete(wake);
}

/** Perch accepted an entry. Its row stays until the view shows it, or a moment if it never does. */
function accept(entry, answer) {
  Object.assign(entry, { state: "accepted", answer });
  if (entry.file) forgetFile(entry.id);
  outboxChanged();
  forgetLater(entry);
}

/** The moment begins when Perch answers again: before that, no view can show the message. */
function forgetLater(entry) {
  clearTimeout(entry.timer);
  if (feed.isOpen) entry.timer = setTimeout(() => remove(entry), SHOWN_AFTER_ANSWER);
}

/** Keeps a refused message, because of its text; drops a refused change and says so. */
function refuse(entry, error) {
  // An earlier try has done it.
  const { code } = error.problem ?? {};
  if (entry.tries > 1 && (code === "not_resendable" || code === "message_not_found")) return remove(entry);
  if (entry.kind === "send") {
    Object.assign(entry, { state: "refused", problem: error.problem ?? { detail: error.message } });
    return outboxChanged();
  }
  remove(entry);
  if (entry.kind !== "read" && !(entry.kind === "remove" && error.problem?.status === 404)) {
    notify(wordsFor(error.problem), true);
  }
}
