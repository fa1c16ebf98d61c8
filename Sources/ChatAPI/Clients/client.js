/**
 * A live view of a chat channel of Perch, for browsers and for Node 18 or later:
 *
 *     const view = await open("general", { url: "http://127.0.0.1:8080", token: async () => myToken });
 *     view.listen((added) => added.forEach((row) => console.log(row.message)));
 *     await view.send("On my way");
 *
 * Rows, gaps and problems have the fields of the contract, `/openapi.yaml`.
 * @typedef {{message_id: string, request_id: string, message: string, [field: string]: any}} Row
 */

/** Nobody answered (`unreachable`), or the answer is `problem`. `passes`: it may succeed later. */
export class PerchError extends Error {
  constructor(problem, retryAfter = 0) {
    super(`${problem.code}: ${problem.detail}`);
    const { status = 503 } = problem;
    Object.assign(this, { problem, retryAfter, passes: status >= 500 || status === 429 || status === 401 });
  }
}

/** The caller made a mistake. The same call fails again. */
export class MistakeError extends PerchError {}

const never = () => new Promise(() => {});
const mistake = (code, detail) => new MistakeError({ code, detail, status: 400 });
const newID = () => Date.now().toString(36) + Math.random().toString(36).replace("0.", "-");
const nameOf = ({ message_id, request_id }) => message_id || `request_id:${request_id}`;
const claimsOf = (token) => JSON.parse(atob(token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/")));
const facts = ["channel", "tail", "newest", "previous", "next", "has_previous", "has_next"];

/** The content of an answer, or its problem as an error. */
function contentOf({ ok, status, headers }, text) {
  const content = text && JSON.parse(text);
  if (ok) return content;
  throw new (status === 400 ? MistakeError : PerchError)(content, Number(headers.get("Retry-After")));
}

/**
 * Opens a view. `token` is called for a bearer token whenever one is needed. `follow` is `stream` (by EventSource)
 * or `poll`. An answer may take `timeout` seconds, a pause between tries `longestPause`. `fields` are those of a
 * MessageCollectionRequest.
 * @param {string} channel
 * @param {{url?: string, token: () => Promise<string>, follow?: string, timeout?: number,
 *   longestPause?: number, fields?: object}} options
 */
export async function open(channel, options) {
  const { url = "", token, timeout = 15, wait = 25, longestPause = 30, fields } = options;
  const { follow = globalThis.EventSource ? "stream" : "poll" } = options;
  // Rows by name, and own ones that the service has not accepted, by request_id.
  const rows = new Map(), own = new Map(), gaps = new Map(), listeners = [], stops = new Set();
  let id, cursor, bearer, user, paging, shown = new Set();
  let isStale = true, streams = false, failures = 0, pages = 0;

  const view = {
    /** `connecting`, `live`, `offline` (no answer), `lost` (the channel is not the user's now), `closed`. */
    connection: "connecting",
    /** Why it is not live. @type {PerchError | undefined} */
    error: undefined,
    /** `channel`, `tail`, `newest`, `has_previous` and `has_next` of the answers. @type {any} */
    state: {},

    /** Sent rows, the oldest first, then the user's unsent ones. @returns {Row[]} */
    get messages() {
      const key = (row) => row.position ?? "~";
      const accepted = [...rows.values()].sort((a, b) => (key(a) > key(b)) - (key(a) < key(b)));
      return [...accepted, ...own.values()];
    },

    /** The user's rows that are pending, failed or canceled. @returns {Row[]} */
    get unsent() { return view.messages.filter((row) => !row.message_id); },

    /** Stretches without their messages. @returns {any[]} */
    get gaps() { return [...gaps.values()]; },

    /** Calls `listener` now and after each change, with the new rows. @param {(added: Row[]) => void} listener */
    listen(listener) {
      listeners.push(listener);
      listener(view.messages);
    },

    /** Sends a text, or the fields of a NewMessage, once. @returns {Promise<Row>} */
    async send(message) {
      const body = { request_id: newID(), ...(message.trim ? { message } : message) };
      own.set(body.request_id, { message_id: "", sending_status: "pending", ...body });
      tell();
      try {
        return await change("POST", "", body, body.request_id);
      } finally {
        own.delete(body.request_id);
      }
    },

    /** Changes a row to a text, or to the fields of a MessageEdit. */
    edit: (row, text) => change("PATCH", `/${nameOf(row)}`, text.trim ? { message: text } : text),
    /** Deletes a sent row, takes a pending one back, or removes a failed one. */
    remove: (row) => change("DELETE", `/${nameOf(row)}`),
    /** Sends a failed row again. */
    resend: (row) => change("POST", `/${nameOf(row)}/resend`),
    /** Loads older rows, in one try. `state.has_previous` says whether more are left. */
    previous: () => load("previous"),
    /** Loads newer rows. */
    next: () => load("next"),

    /** Disposes of the view. What still waits for it ends with an error. */
    async close() {
      stops.forEach((stop) => stop.abort());
      const disposed = ask("DELETE", path(""), {}, 5);
      become("closed");
      await disposed.catch(() => {});
    },
  };

  while (view.connection === "connecting") await turn();
  if (view.error) throw view.error;
  (async () => { while (view.connection !== "closed") await turn(); })();
  return view;

  async function turn() {
    await paging;
    try {
      await (isStale ? read(pages) : poll(pages));
      failures = 0;
    } catch (error) {
      if (view.connection !== "closed") await recover(error, failures++);
    }
  }

  /** Reads the whole view again, or opens it. */
  async function read(page) {
    const body = { channel_url: channel, ...fields };
    const answer = await (id ? ask("GET", path("")) : ask("POST", "/v1/message-collections", { body }));
    if (page !== pages) return;
    id = answer.id;
    isStale = false;
    rows.clear();
    gaps.clear();
    [...answer.failed, ...answer.pending, ...answer.messages].forEach(put);
    take(answer);
    arrive(answer.cursor);
  }

  /** Asks for events, then hears a stream for a while. */
  async function poll(page) {
    const events = path("/events"), query = `?since=${cursor}&wait=${streams ? 0 : wait}`;
    const answer = await ask("GET", events + query, {}, wait + timeout);
    if (page !== pages) return;
    answer.events.forEach(apply);
    arrive(answer.cursor);
    streams = false;
    if (follow !== "stream" || answer.has_more || isStale) return;
    const { ticket } = await ask("POST", "/v1/events/ticket", { body: { path: events } });
    const source = new EventSource(`${url}${events}?since=${cursor}&ticket=${ticket}`);
    await within(5 * wait, () => hear(source, page)).catch(() => { streams = true; });
    source.close();
  }

  /** Hears until the stream ends. Of an answer's events only the last has the next cursor. */
  function hear(source, page) {
    let batch = [];
    return new Promise((end) => {
      source.onerror = end;
      source.onmessage = ({ data, lastEventId }) => {
        streams = true;
        if (page !== pages) return end();
        batch.push(JSON.parse(data));
        if (lastEventId === cursor) return;
        batch.splice(0).forEach(apply);
        arrive(lastEventId);
        if (isStale) end();
      };
    });
  }

  function apply(event) {
    if (event.type === "messages.replaced") {
      rows.forEach((row) => row.message_id && drop(row));
      gaps.clear();
    }
    event.messages?.forEach(put);
    event.message_refs?.forEach(drop);
    take(event);
    if (event.type === "channel.deleted") lose();
  }

  /** Inserts a row or replaces it. A sent row replaces the unsent one of its request. */
  function put(row) {
    own.delete(row.request_id);
    if (row.message_id) drop({ request_id: row.request_id });
    rows.set(nameOf(row), row);
  }

  function drop({ message_id, request_id }) {
    rows.delete(message_id);
    rows.delete(`request_id:${request_id}`);
  }

  /** Takes what an answer says beside its rows. */
  function take({ gap, gaps: list = gap ? [gap] : [], channels, ...answer }) {
    if (channels) answer.channel = channels[0];
    for (const name of facts) if (name in answer) view.state[name] = answer[name];
    for (const one of list) one.state === "closed" ? gaps.delete(one.id) : gaps.set(one.id, one);
  }

  function arrive(at) {
    cursor = at;
    become(isStale ? "lost" : "live");
  }

  /** Loads a page. Answers to what was asked for before are not used after it. */
  async function load(edge) {
    pages += 1;
    const page = ask("POST", path(`/${edge}`), { body: { from: view.state[edge] } });
    paging = page.catch(() => {});
    const answer = await page, has = `has_${edge}`;
    answer.messages.forEach(put);
    take({ gaps: answer.gaps, [edge]: answer[edge], [has]: answer[has] });
    tell();
  }

  /** Makes a change once, however often it has to be tried. */
  async function change(method, end, body, key = newID()) {
    for (let failures = 0; ; failures++) {
      try {
        return await ask(method, `/v1/channels/${encodeURIComponent(channel)}/messages${end}`, { body, key });
      } catch (error) {
        if (failures && error.problem.code === "not_resendable") return undefined; // An earlier try did it.
        if (!error.passes) throw error;
        await pause(failures, error);
      }
    }
  }

  /** What follows from a failure: read or open again, give up, or try later. */
  async function recover(error, failures) {
    const { passes, problem: { status, code } } = error, isNew = view.connection === "connecting";
    const isGone = status === 410 || code === "collection_not_found";
    if (isGone) isStale = true;
    if (isGone && status === 404) id = undefined;
    const isFinal = error instanceof MistakeError || (isNew && (!passes || status === 401 || failures > 6));
    if (isFinal && !isGone) return become("closed", error);
    if (!passes && !isGone) lose();
    if (!isNew) become(passes || isGone ? "offline" : "lost", error);
    if (!isGone || failures) await pause(failures, error);
  }

  /** The channel is not the user's now. Nothing of it is shown, and it is opened when that is possible. */
  function lose() {
    rows.clear();
    id = undefined;
    isStale = true;
  }

  function become(connection, error) {
    Object.assign(view, { connection, error });
    tell();
  }

  function tell() {
    const keyOf = (row) => row.request_id || row.message_id, all = view.messages;
    const added = all.filter((row) => !shown.has(keyOf(row)));
    shown = new Set(all.map(keyOf));
    listeners.forEach((listener) => Promise.resolve(added).then(listener));
  }

  function path(end) { return `/v1/message-collections/${id}${end}`; }

  /** Waits for half a second at first, then longer, or as long as the service says. */
  async function pause(failures, { retryAfter }) {
    const seconds = Math.min(longestPause, 2 ** failures / 2) * (0.5 + Math.random() / 2);
    if (view.connection !== "closed") await within(Math.max(seconds, retryAfter), never).catch(() => {});
  }

  /** Runs `work` until it ends, `seconds` are over, or the view is closed. */
  async function within(seconds, work) {
    const stop = new AbortController(), timer = setTimeout(() => stop.abort(), seconds * 1000);
    const stopped = new Promise((_, fail) => { stop.signal.onabort = () => fail(Error("No answer in time.")); });
    stops.add(stop);
    try {
      return await Promise.race([stopped, work(stop.signal)]);
    } finally {
      clearTimeout(timer);
      stops.delete(stop);
    }
  }

  async function ask(method, end, { body, key } = {}, seconds = timeout) {
    if (view.connection === "closed") throw mistake("view_closed", "The view was closed. Open another.");
    try {
      return await within(seconds, async (signal) => {
        const headers = { Authorization: `Bearer ${await bearerNow()}` };
        if (body) headers["Content-Type"] = "application/json";
        if (key) headers["Idempotency-Key"] = key;
        const answer = await fetch(url + end, { method, headers, signal, body: body && JSON.stringify(body) });
        return contentOf(answer, await answer.text());
      });
    } catch (error) {
      if (error.problem?.status === 401) bearer = undefined;
      throw error.problem ? error : new PerchError({ code: "unreachable", detail: error.message });
    }
  }

  /** The token, or a new one of the same user. */
  async function bearerNow() {
    if (bearer && claimsOf(bearer).exp > Date.now() / 1000 + 5) return bearer;
    bearer = await token();
    const { sub } = claimsOf(bearer);
    if ((user ??= sub) === sub) return bearer;
    throw mistake("other_user", `The view is of ${user}, and the token is of ${sub}.`);
  }
}
