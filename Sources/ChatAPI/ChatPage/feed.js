import { ask, requests } from "./transport.js";
import { session } from "./session.js";

// One stream carries everything of one user to all of the user's tabs, because a browser opens only six
// connections to a host. The tabs choose a leading one by a Web Lock. Each tab says which collections it
// follows, and from which cursor; the leading tab keeps one stream for all of them and passes each batch on
// by a BroadcastChannel. When the leading tab is closed, the lock goes to another tab. That tab asks all tabs
// what they follow and goes on from the oldest cursor. A batch that a tab has had already changes nothing
// there.

const PAUSE = 250, LONGEST_PAUSE = 2000, GATHERING = 40;

/** The name of this tab. Its lock is held as long as the tab lives. */
export const TAB = Math.random().toString(36).slice(2);

// What this tab follows, by collection id: the cursor, and what to call.
const followed = new Map();
const batchListeners = [], stateListeners = [];
// Of the leading tab: what the other tabs follow, and the stream.
const others = new Map();
let channel, isLeading = false, stream = null, userCursor = "now";
// The sequence up to which this tab knows the user's connection.
let connectionAt = 0;
let connectFeed, connecting = null;

/** `isOpen`: whether Perch answers. `isLeading`: whether this tab has the stream. */
export const feed = { isOpen: true, get isLeading() { return isLeading; } };

/** Calls `listener(events)` for each batch of events of all feeds. */
export const onEvents = (listener) => batchListeners.push(listener);
/** Calls `listener()` when Perch is lost or is back. */
export const onFeedState = (listener) => stateListeners.push(listener);

/**
 * Follows the user's feed. `connect()` connects the user and gives the cursor of that moment, from which the feed goes
 * on. Resolves after the first attempt; as long as that fails, the feed tries again.
 */
export function startFeed(connect) {
  connectFeed = connect;
  takeTurns();
  return start().catch(() => {});
}

async function start() {
  connecting ??= connectFeed().finally(() => { connecting = null; });
  const cursor = await connecting;
  if (userCursor === "now" || (cursor !== "now" && isAfter(cursor, userCursor))) moveUserTo(cursor);
}

/** The user's feed, and what this tab knows of the connection, go on from that cursor. */
function moveUserTo(cursor) {
  userCursor = cursor;
  connectionAt = connectionOf(cursor);
}

/** Of a user's tabs one leads at a time. */
function takeTurns() {
  const name = `perch.feed.${session.user}`;
  if (!navigator.locks) return lead();
  channel = new BroadcastChannel(name);
  channel.onmessage = ({ data }) => hearTab(data);
  navigator.locks.request(`perch.tab.${TAB}`, () => {
    // Messages sent before the lock was held may have been taken for those of a closed tab.
    announceFollowed();
    return new Promise(() => {});
  });
  navigator.locks.request(name, () => {
    lead();
    return new Promise(() => {});
  });
  addEventListener("pagehide", () => post({ kind: "bye", tab: TAB }));
}

// A page that is left disposes of its views, because Perch keeps them for an hour and only so many of a user.
// A page that the browser brings back begins anew.
addEventListener("pagehide", () => followed.forEach(({ path }) => ask("DELETE", path).catch(() => {})));
addEventListener("pageshow", (event) => event.persisted && location.reload());

/** The names of the open tabs, by their locks. */
export async function livingTabs() {
  const { held = [] } = (await navigator.locks?.query()) ?? {};
  return new Set([TAB, ...held.map(({ name }) => name.replace("perch.tab.", ""))]);
}

/**
 * Follows the collection of a path. Calls `onevents(events, cursor)`, or `onlost()` when it must be
 * read again.
 */
export function follow(path, cursor, { onevents, onlost }) {
  const id = path.split("/")[3], follower = { id, path, cursor, onevents, onlost };
  followed.set(id, follower);
  post({ kind: "follow", tab: TAB, id, cursor });
  if (isLeading) wanted(id, cursor);
  return () => {
    if (followed.get(id) === follower) followed.delete(id);
    post({ kind: "unfollow", tab: TAB, id });
  };
}

/** An EventSource for client.js, fed by the shared stream. */
export class SharedEventSource {
  constructor(address) {
    const { pathname, searchParams } = new URL(address, location.href);
    this.close = follow(pathname.replace(/\/events$/, ""), searchParams.get("since"), {
      onlost: () => this.onerror?.(),
      onevents: (events, cursor) => events.forEach((event, at) => this.onmessage?.({
        data: JSON.stringify(event), lastEventId: at === events.length - 1 ? cursor : "",
      })),
    });
  }
}

const post = (message) => channel?.postMessage(message);
const announceFollowed = () => followed.forEach(({ id, cursor }) =>
  post({ kind: "follow", tab: TAB, id, cursor }));

function hearTab(message) {
  const { kind, tab, id, cursor } = message;
  if (kind === "batch") take(message);
  else if (kind === "lost") lose();
  else if (kind === "state") become(message.isOpen);
  else if (kind === "who") announceFollowed();
  else if (isLeading && kind === "bye") others.delete(tab);
  else if (isLeading && kind === "unfollow") others.get(tab)?.delete(id);
  else if (isLeading && kind === "follow") {
    if (!others.has(tab)) others.set(tab, new Map());
    others.get(tab).set(id, cursor);
    wanted(id, cursor);
  }
}

/** Passes a batch to listeners and followers. */
function take({ ids, events, cursor }) {
  let heard = [];
  if (isAfter(cursor, userCursor)) {
    heard = events;
    moveUserTo(cursor);
  } else if (connectionOf(cursor) > connectionAt) {
    // Perch holds messages back, and tells the connection alone: the rest of the cursor stays where it was.
    heard = events.filter(({ type }) => type === "connection.changed");
    connectionAt = connectionOf(cursor);
  }
  if (heard.length) batchListeners.forEach((listener) => listener(heard));
  for (const id of ids) {
    const follower = followed.get(id);
    if (!follower || !isAfter(cursor, follower.cursor)) continue;
    follower.cursor = cursor;
    const own = events.filter((event) => event.collection_id === id);
    if (own.length) follower.onevents(own, cursor);
  }
}

function lose() {
  const all = [...followed.values()];
  followed.clear();
  all.forEach(({ onlost }) => onlost());
}

function become(isOpen) {
  if (isOpen && !isLeading && userCursor === "now") start().catch(() => {});
  if (feed.isOpen === isOpen) return;
  feed.isOpen = isOpen;
  stateListeners.forEach((listener) => listener());
}

/** The sequence up to which a client with that cursor knows its connection. */
function connectionOf(cursor) {
  const [, , sequence = 0, connection = sequence] = cursor.split(".");
  return +connection;
}

/** Whether cursor `a` lies after `b`: `epoch.run.sequence` and maybe `.connection`. In another epoch all is new. */
function isAfter(a, b) {
  const [epoch, ...numbers] = a.split("."), [otherEpoch, ...others] = b.split(".");
  const at = numbers.findIndex((number, index) => number !== others[index]);
  return epoch !== otherEpoch || (at >= 0 && +numbers[at] > +(others[at] ?? 0));
}

/** Ends the stream, to open it anew, if it lacks the collection or is past the cursor. */
function wanted(id, cursor) {
  if (!stream || !stream.ids.includes(id) || isAfter(stream.cursor, cursor)) stream?.end();
}

async function lead() {
  isLeading = true;
  post({ kind: "who" });
  for (let tries = 0; ; tries++) {
    // Several views are often opened at once, and a new leading tab waits for the answers of the others.
    await sleep(tries ? Math.min(LONGEST_PAUSE, PAUSE * 2 ** tries) : GATHERING);
    try {
      await runStream();
      tries = -1;
    } catch (error) {
      if (!error.problem || error.passes) tell({ kind: "state",
        isOpen: error.problem?.code !== "unreachable" });
      // The cursor is too old, or one of the collections is gone: each view is read again.
      else await loseAll(error.problem);
    }
  }
}

async function loseAll({ status }) {
  if (status === 410) moveUserTo("now");
  others.clear();
  tell({ kind: "lost" });
}

/** Tells this tab and the others. */
function tell(message) {
  post(message);
  hearTab(message);
}

const sleep = (milliseconds) => new Promise((go) => setTimeout(go, milliseconds));

/**
 * Polls for what is new, which also shows whether Perch answers, then streams until the stream is ended.
 */
async function runStream() {
  if (userCursor === "now") await start();
  // A tab that opens during the look at the locks must not be removed.
  const known = [...others.keys()], living = await livingTabs();
  for (const tab of known) if (!living.has(tab)) others.delete(tab);
  const elsewhere = [...others.values()].flatMap((one) => [...one].map(([id, cursor]) => ({ id, cursor })));
  const wishes = [...followed.values(), ...elsewhere];
  const ids = [...new Set(wishes.map(({ id }) => id))];
  let since = userCursor;
  for (const { cursor } of wishes) if (since === "now" || isAfter(since, cursor)) since = cursor;
  const views = ids.length ? `collections=${ids.join(",")}&` : "";
  const path = `/v1/events?${views}user_feed=true`;
  let isEnded = false, endNow = () => {};
  stream = { ids, cursor: since, end: () => { isEnded = true; endNow(); } };
  for (let hasMore = true; hasMore;) {
    const answer = await ask("GET", `${path}&since=${stream.cursor}&wait=0`);
    advance(answer.events, answer.cursor);
    hasMore = answer.has_more;
  }
  tell({ kind: "state", isOpen: true });
  const { ticket } = await ask("POST", "/v1/events/ticket", { path: "/v1/events" });
  const address = `${path}&since=${stream.cursor}`;
  if (!isEnded) await listen(`${address}&ticket=${ticket}`, address, (end) => { endNow = end; });
}

function advance(events, cursor) {
  stream.cursor = cursor;
  tell({ kind: "batch", ids: stream.ids, events, cursor });
}

function listen(address, shown, setEnd) {
  const source = new EventSource(address),
    record = { method: "GET", path: shown, at: Date.now(), status: "stream" };
  requests.push(record);
  let batch = [];
  source.onmessage = ({ data, lastEventId }) => {
    batch.push(JSON.parse(data));
    if (lastEventId === stream.cursor) return;
    advance(batch, lastEventId);
    batch = [];
  };
  return new Promise((resolve) => {
    setEnd(resolve);
    for (const name of ["error", "reset", "unauthorized", "gone"]) source.addEventListener(name, resolve);
  }).finally(() => source.close());
}
