import { connect, open } from "/client.js";
import { currentToken, session, tokenWasRefused } from "./session.js";
import { noteServerTime } from "./format.js";

// All requests of the page: made by client.js, sent and recorded here. No record has a token or a ticket.

const RECORDED_REQUESTS = 200, RECORDED_BODY = 2000;

/** The recorded requests, the newest last. */
export const requests = [];
const requestListeners = [];

/** Calls `listener` after each answer. */
export const onRequest = (listener) => requestListeners.push(listener);

const watchedForms = new WeakMap();

/** Tells how far a form is sent, and ends the sending when `signal` says so. */
export const watchForm = (form, onpart, signal) => watchedForms.set(form, { onpart, signal });

const connection = { token: currentToken, fetch: recordingFetch, maxPause: 4 };

/** Requests outside of a view: `ask(method, path, body, key)` of client.js. */
export const { ask } = connect(connection);

/** A live view of client.js. All views of all tabs share one stream: `EventSource` is fed by it. */
export const openView = (channel, fields, EventSource) => open(channel, { ...connection, fields, EventSource });

/** The path of a channel, with the rest behind it. */
export const channelPath = (channel, rest = "") => `/v1/channels/${encodeURIComponent(channel)}${rest}`;

/** The bytes of a file that Perch has, with their type. */
export const askForFile = (path) => ask("GET", `${path}/file`, undefined, "", 60);

async function recordingFetch(wantedPath, init) {
  // A view's own polls never wait, so that no tab keeps a connection: the shared stream tells what comes.
  const path = wantedPath.replace(/(-collections\/.*[?&]wait=)\d+/, "$10");
  const began = performance.now(), token = session.token;
  const record = { method: init.method, path: maskTicket(path), at: Date.now(), body: bodyText(init.body),
    status: 0 };
  requests.push(record);
  requests.splice(0, requests.length - RECORDED_REQUESTS);
  try {
    // If the message was sent meanwhile, its file is a redirect to the chat server: it is not followed.
    // A DELETE that is sent while the page is left outlives the page.
    const options = { ...init, keepalive: init.method === "DELETE",
      redirect: path.endsWith("/file") ? "manual" : "follow" };
    const answer = await (init.body instanceof FormData ? sendForm(path, init) : fetch(path, options));
    noteServerTime(answer.headers.get("Date"));
    record.status = answer.status;
    record.cache = answer.headers.get("Cache-Status") ?? "";
    record.bytes = +(answer.headers.get("Content-Length") ?? 0);
    if (answer.status === 401) tokenWasRefused(token);
    // client.js reads each answer as JSON; a file is its bytes.
    if (answer.ok && path.endsWith("/file")) answer.json = () => answer.blob();
    return answer;
  } catch (error) {
    record.failure = error.message;
    throw error;
  } finally {
    record.milliseconds = performance.now() - began;
    requestListeners.forEach((listener) => listener(record));
  }
}

const maskTicket = (path) => path.replace(/([?&]ticket=)[^&]*/, "$1…");

function bodyText(body) {
  if (body instanceof FormData) return { params: body.get("params"), file: body.get("file")?.name };
  return typeof body === "string" ? body.slice(0, RECORDED_BODY) : "";
}

/** Sends a form as fetch would, and tells how far it is, which fetch cannot. */
function sendForm(path, { method, headers, body, signal }) {
  const request = new XMLHttpRequest(), watched = watchedForms.get(body);
  const stopped = () => request.abort();
  signal?.addEventListener("abort", stopped);
  watched?.signal?.addEventListener("abort", stopped);
  request.open(method, path);
  Object.entries(headers).forEach(([name, value]) => request.setRequestHeader(name, value));
  request.upload.onprogress = ({ loaded, total }) => watched?.onpart?.(loaded / (total || 1));
  return new Promise((resolve, reject) => {
    request.onload = () => resolve(new Response(request.response,
      { status: request.status, headers: headersOf(request) }));
    request.onerror = () => reject(new TypeError("Failed to fetch"));
    request.onabort = () => reject(new DOMException("Aborted", "AbortError"));
    request.send(body);
  });
}

function headersOf(request) {
  const lines = request.getAllResponseHeaders().trim().split(/\r?\n/).filter(Boolean);
  return new Headers(lines.map((line) =>
    [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
}
