/**
 * A live view of a chat channel of Perch, for browsers and Node 18:
 *
 *     const view = await open("general", { url: "http://127.0.0.1:8080", token: async () => myToken });
 *     view.listen((added) => added.forEach((row) => console.log(row.message)));
 *
 * @typedef {{message_id: string, request_id: string, [field: string]: any}} Row
 */

/** `problem`: the answer, or `unreachable`. `passes`: try later. */
export class PerchError extends Error {
  constructor(problem, retryAfter = 0) {
    super(`${problem.code}: ${problem.detail}`);
    const { status = 503 } = problem, passes = status >= 500 || status === 429 || status === 401;
    Object.assign(this, { problem, retryAfter, passes });
  }
}

/** The caller's fault. */
export class MistakeError extends PerchError {}

const mistake = (code, detail) => new MistakeError({ code, detail, status: 400 });
const newID = () => `${Date.now()}-${Math.random()}`;
const nameOf = ({ message_id, request_id }) => message_id || `request_id:${request_id}`;
const claimsOf = (token) => JSON.parse(atob(token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/")));

/**
 * Requests. `token` is called when needed.
 * @param {{url?: string, token: () => Promise<string>, timeout?: number, fetch?: typeof fetch}} options
 */
export function connect({ url = "", token, timeout = 15, fetch = globalThis.fetch }) {
  const stops = new Set(), to = { ask, within, stop: () => stops.forEach((stop) => stop.abort()) };
  let bearer;
  return to;

  async function within(seconds, work) {
    const stop = new AbortController(), timer = setTimeout(() => stop.abort(), seconds * 1000);
    const stopped = new Promise((_, fail) => { stop.signal.onabort = fail; });
    stops.add(stop);
    try {
      return await Promise.race([stopped, work(stop.signal)]);
    } finally {
      clearTimeout(timer);
      stops.delete(stop);
    }
  }

  /** `body`: fields or a form. */
  async function ask(method, path, body, key, seconds = timeout) {
    try {
      return await within(seconds, async (signal) => {
        const headers = { Authorization: `Bearer ${await bearerNow()}` };
        if (key) headers["Idempotency-Key"] = key;
        if (!body?.append) headers["Content-Type"] = "application/json", body = JSON.stringify(body);
        const answer = await fetch(url + path, { method, headers, signal, body }), { status } = answer;
        const content = status === 204 ? undefined : await answer.json();
        if (answer.ok) return content;
        throw new (status === 400 ? MistakeError : PerchError)(content, +answer.headers.get("Retry-After"));
      });
    } catch (error) {
      if (error.problem?.status === 401) bearer = undefined;
      if (error.problem) throw error;
      throw new PerchError({ code: "unreachable", detail: error.message ?? "timeout" });
    }
  }

  async function bearerNow() {
    if (bearer && claimsOf(bearer).exp > Date.now() / 1000 + 5) return bearer;
    const next = await token(), { sub } = claimsOf(next);
    if ((to.user ??= sub) === sub) return bearer = next;
    throw mistake("other_user", `Of ${to.user}, not of ${sub}.`);
  }
}

/**
 * Opens a view. `follow`: `stream` or `poll`. `wait`, `timeout`, `maxPause`: most seconds of a poll, an answer, a pause.
 * `fields`: of a MessageCollectionRequest.
 * @param {string} channel
 * @param {Parameters<connect>[0] & {follow?: string, wait?: number, maxPause?: number, fields?: object,
 *   EventSource?: any}} options
 */
export async function open(channel, options) {
  const { url = "", wait = 25, timeout = 15, maxPause = 30, EventSource = globalThis.EventSource, fields } = options;
  const { follow = EventSource ? "stream" : "poll" } = options, to = connect(options);
  // By name; `own`: in no answer yet.
  const rows = new Map(), own = new Map(), listeners = [];
  const path = (end) => `/v1/message-collections/${id}${end}`;
  // One page at a time.
  const load = (edge) => paging = Promise.allSettled([paging]).then(() => page(edge));
  let id, cursor, paging, end, accepted, shown = new Set(), isStale = true, streams = true, tries = 0, pages = 0;

  const view = {
    /** `connecting`, `live`, `offline` (no answer), `lost` (not the user's now), `closed`. */
    connection: "connecting",
    /** Why it is not live. @type {PerchError?} */
    error: null,
    /** `channel`, `tail`, `has_previous`, … @type {any} */
    state: {},
    /** By id. @type {Map<string, any>} */
    gaps: new Map(),

    /** Sent rows, oldest first, then unsent. @returns {Row[]} */
    get messages() {
      const at = (row) => row.position ?? "z";
      return [...[...rows.values()].sort((a, b) => (at(a) > at(b)) - (at(a) < at(b))), ...own.values()];
    },

    /** Unsent rows. @returns {Row[]} */
    get unsent() { return view.messages.filter((row) => !row.message_id); },

    /** Calls it now and at each change. @param {(added: Row[]) => void} listener */
    listen(listener) {
      listeners.push(listener);
      listener(view.messages);
    },

    /** Sends a text or a NewMessage, once. @returns {Promise<Row>} */
    send(message) {
      const body = { request_id: newID(), ...(message.trim ? { message } : message) }, key = body.request_id;
      const row = { message_id: "", sending_status: "pending", sender: { user_id: to.user }, ...body };
      if (!view.messages.some((shown) => shown.request_id === key)) own.set(key, row);
      tell();
      return change("POST", "", body, key).then(
        (answer) => { row.is_accepted = true; setTimeout(() => own.has(key) && end?.(), 999); return answer; },
        (error) => { own.delete(key); tell(); throw error; });
    },

    /** Takes a MessageEdit. */
    edit: (row, fields) => change("PATCH", `/${nameOf(row)}`, fields),
    /** Deletes or cancels a row. */
    remove: (row) => change("DELETE", `/${nameOf(row)}`),
    resend: (row) => change("POST", `/${nameOf(row)}/resend`),
    /** Older rows, or fails. */
    previous: () => load("previous"),
    next: () => load("next"),

    async close() {
      to.stop();
      const gone = ask("DELETE", path(""), undefined, "", 5);
      become("closed");
      await gone.catch(() => {});
    },
  };

  while (view.connection === "connecting") await turn();
  if (view.error) throw view.error;
  (async () => { while (view.connection !== "closed") await turn(); })();
  return view;

  async function turn() {
    await Promise.allSettled([paging]);
    accepted = [...own.values()].filter((row) => row.is_accepted);
    try {
      await (isStale ? read(pages) : poll(pages));
      tries = 0;
    } catch (error) {
      await recover(error, tries++);
    }
  }

  async function read(page) {
    const body = { channel_url: channel, ...fields };
    const answer = await (id ? ask("GET", path("")) : ask("POST", "/v1/message-collections", body));
    if (page !== pages) return;
    id = answer.id;
    isStale = false;
    rows.clear();
    view.gaps.clear();
    [...answer.failed, ...answer.pending, ...answer.messages].forEach(put);
    note(answer);
    arrive(answer.cursor);
  }

  async function poll(page) {
    const events = path("/events"), query = `?since=${cursor}&wait=${streams ? 0 : wait}`;
    const answer = await ask("GET", events + query, undefined, "", wait + timeout);
    if (page !== pages) return;
    answer.events.forEach(apply);
    arrive(answer.cursor, answer.has_more);
    streams = false;
    if (follow !== "stream" || answer.has_more || isStale) return;
    const { ticket } = await ask("POST", "/v1/events/ticket", { path: events });
    const source = new EventSource(`${url}${events}?since=${cursor}&ticket=${ticket}`);
    await to.within(5 * wait, () => hear(source, page)).catch(() => { streams = true; });
    source.close();
  }

  /** Its last event has the cursor. */
  function hear(source, page) {
    let batch = [];
    source.onmessage = ({ data, lastEventId }) => {
      streams = true;
      if (page !== pages) return end();
      batch.push(JSON.parse(data));
      if (lastEventId === cursor) return;
      batch.splice(0).forEach(apply);
      arrive(lastEventId);
      if (isStale) end();
    };
    return new Promise((resolve) => { end = source.onerror = resolve; });
  }

  function apply(event) {
    if (event.type === "messages.replaced") rows.forEach((row) => row.message_id && drop(row));
    if (event.gaps) view.gaps.clear();
    event.messages?.forEach(put);
    event.message_refs?.forEach(drop);
    note(event);
    if (event.type === "huge_gap.detected") isStale = true;
    if (event.type === "channel.deleted") rows.clear(), forget();
  }

  /** A sent row replaces its sender's unsent one. */
  function put(row) {
    const { request_id, sender } = row, name = nameOf({ request_id });
    own.delete(request_id);
    if (row.message_id && rows.get(name)?.sender?.user_id === sender?.user_id) rows.delete(name);
    rows.set(nameOf(row), row);
  }

  function drop({ message_id, request_id }) {
    rows.delete(message_id) || rows.delete(nameOf({ request_id }));
  }

  function note({ gap, gaps: list = gap ? [gap] : [], channels, read_at, ...answer }) {
    if (channels) answer.channel = channels[0];
    if (read_at && !view.state.channel.reader_count) view.state.channel.read_receipts[answer.user_id] = read_at;
    for (const name of "channel tail newest previous next has_previous has_next".split(" ")) {
      if (name in answer) view.state[name] = answer[name];
    }
    for (const one of list) one.state === "closed" ? view.gaps.delete(one.id) : view.gaps.set(one.id, one);
  }

  function arrive(at, hasMore) {
    cursor = at;
    // Accepted rows that the view does not show.
    if (!hasMore) accepted.splice(0).forEach((row) => own.delete(row.request_id));
    become(id ? "live" : "lost");
  }

  async function page(edge) {
    const from = view.state[edge], has = `has_${edge}`;
    if (!from) return;
    pages += 1;
    const body = { [edge === "next" ? "after" : "before"]: from };
    const { items, gaps, [has]: isMore, [edge]: to } = await ask("POST", path(`/${edge}`), body);
    items.forEach(put);
    view.gaps.clear();
    note({ gaps, [edge]: to ?? (isMore && from), [has]: isMore });
    tell();
    if (isMore && !to) throw new PerchError({ code: "upstream_unreachable", detail: "Not now." });
  }

  async function change(method, end, body, key = newID()) {
    for (let tries = 0; ; tries++) {
      try {
        return await ask(method, `/v1/channels/${encodeURIComponent(channel)}/messages${end}`, body, key);
      } catch (error) {
        // An earlier try did it.
        if (tries && !body && /^(not_resendable|message_not_found)$/.test(error.problem.code)) return;
        if (!error.passes) throw error;
        await pause(tries, error);
      }
    }
  }

  async function recover(error, tries) {
    const { passes, problem: { status, code } } = error, isNew = view.connection === "connecting";
    const isGone = status === 410 || code === "collection_not_found";
    const isVain = isNew && (!passes || status === 401 || tries > 6);
    if (isVain || error instanceof MistakeError) return become("closed", error);
    if (status === 410) isStale = true;
    else if (!passes) forget();
    if (!passes && !isGone) rows.clear();
    if (!isNew) become(passes || isGone ? "offline" : "lost", error);
    if (!isGone || tries) await pause(tries, error);
  }

  function forget() { id = undefined, isStale = true; }

  function become(connection, error = null) {
    if (view.connection !== "closed") Object.assign(view, { connection, error });
    tell();
  }

  function tell() {
    const keyOf = (row) => row.sender?.user_id + (row.request_id || row.message_id), all = view.messages;
    const added = all.filter((row) => !shown.has(keyOf(row)));
    shown = new Set(all.map(keyOf));
    listeners.forEach((listener) => Promise.resolve(added).then(listener));
  }

  async function pause(tries, { retryAfter }) {
    const seconds = Math.max(retryAfter, Math.min(maxPause, 2 ** tries) * (0.5 + Math.random() / 2));
    if (view.connection !== "closed") await to.within(seconds, () => new Promise(() => {})).catch(() => {});
  }

  async function ask(...words) {
    if (view.connection === "closed") throw mistake("view_closed", "Closed.");
    return to.ask(...words);
  }
}
