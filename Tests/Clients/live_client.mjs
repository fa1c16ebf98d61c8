/**
 * Drives a view of client.js for live_clients.py: a command is a line of JSON on stdin, an answer one on stdout. What a
 * strict client must never see is a line with `broken`.
 */
import { createHmac } from "node:crypto";
import { createInterface } from "node:readline";

const { client, secret, channel, ...options } = JSON.parse(process.argv[2]);
const { open } = await import(client);
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const encode = (value) => Buffer.from(value).toString("base64url");
let isFaulty = true, { user } = options;

/** Tokens end soon. Sometimes there is none, or one that the service refuses. */
async function token() {
  const fault = isFaulty ? Math.random() : 1;
  if (fault < 0.1) throw new Error("the server of tokens is away");
  const claims = { sub: user, exp: Math.floor(Date.now() / 1000) + 7, scope: "chat" };
  const text = `${encode('{"alg":"HS256","typ":"JWT"}')}.${encode(JSON.stringify(claims))}`;
  return `${text}.${createHmac("sha256", fault < 0.2 ? "other" : secret).update(text).digest("base64url")}`;
}

/** As much of a browser's EventSource as a client needs. It does not come back by itself. */
class Source {
  #stop = new AbortController();

  constructor(address) { this.#run(address).catch(() => {}).then(() => this.onerror?.()); }

  close() {
    this.onmessage = this.onerror = undefined;
    this.#stop.abort();
  }

  async #run(address) {
    const answer = await fetch(address, { headers: { Accept: "text/event-stream" }, signal: this.#stop.signal });
    let text = "", lastEventId = "";
    for await (const bytes of answer.body.pipeThrough(new TextDecoderStream())) {
      text += bytes;
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        const block = Object.fromEntries(text.slice(0, end).split("\n").map((line) => line.split(/: ?(.*)/s)));
        lastEventId = block.id ?? lastEventId;
        if (block.data && !block.event) this.onmessage?.({ data: block.data, lastEventId });
      }
    }
  }
}
globalThis.EventSource = Source;

function check(view) {
  const rows = view.messages;
  for (const name of ["message_id", "request_id"]) {
    // Two users may use one request id. A row without a sender is the user's own.
    const names = rows.filter((row) => row[name]).map((row) => `${row[name]} ${row.sender?.user_id ?? user}`);
    if (new Set(names).size !== names.length) say({ broken: `twins by ${name}: ${JSON.stringify(rows)}` });
  }
  const positions = rows.map((row) => row.position).filter(Boolean);
  if (JSON.stringify(positions) !== JSON.stringify([...positions].sort())) say({ broken: `order: ${positions}` });
}

/** Opens as an app would that really wants to: again, if it failed. */
async function opened() {
  for (;;) {
    try {
      return await open(channel, { ...options, token, maxPause: 1 });
    } catch (error) {
      say({ log: `${error.constructor.name} ${error.problem?.code ?? error.stack}` });
      await new Promise((go) => setTimeout(go, 300));
    }
  }
}

const view = await opened();
const states = new Set();
view.listen(() => { states.add(view.connection); check(view); });
setInterval(() => check(view), 20).unref();

const acts = {
  send: ({ text, name }) => view.send({ message: text, request_id: name }),
  edit: ({ row, text }) => view.edit(row, { message: text }),
  remove: ({ row }) => view.remove(row),
  resend: ({ row }) => view.resend(row),
  previous: () => view.previous(),
  rows: () => view.messages,
  show: () => ({
    rows: view.messages, unsent: view.unsent, connection: view.connection, states: [...states],
    gaps: [...view.gaps.values()], error: view.error?.problem ?? null, has_previous: view.state.has_previous,
  }),
  calm: () => { isFaulty = false; },
  become: (values) => { user = values.user; },
  close: () => view.close(),
};

say({ opened: true });
for await (const line of createInterface({ input: process.stdin })) {
  const { number, act, ...values } = JSON.parse(line);
  Promise.resolve(values).then(acts[act]).then(
    (result) => say({ number, result: result ?? null }),
    (error) => {
      const problem = error.problem ?? { code: "thrown", detail: error.stack };
      say({ number, problem, kind: error.constructor.name });
    });
}
process.exit(0);
