/** The same session as generated_client.py, with the TypeScript client that openapi-generator makes of the contract. */

import {
  ChannelsApi, CollectionsApi, Configuration, ConnectionApi, Event as ChatEvent, Message, MessagesApi, OperatorApi, ResponseError,
} from "./perch";

declare const process: { env: Record<string, string | undefined>; exit(code: number): never };

const url = process.env.TARGET_URL ?? "";
const origin = process.env.ORIGIN_URL ?? "";
const configuration = new Configuration({ basePath: url, accessToken: process.env.CHAT_TOKEN });
let done = 0;

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
  done += 1;
}

async function say(text: string): Promise<void> {
  const body = JSON.stringify({ message_type: "MESG", user_id: "bob", message: text });
  const headers = { "Api-Token": "origin", "Content-Type": "application/json" };
  await fetch(`${origin}/v3/group_channels/general/messages`, { method: "POST", headers, body });
}

/** The status and the code of the problem that a call ends with. */
async function problem(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "none";
  } catch (error) {
    if (!(error instanceof ResponseError)) throw error;
    const body = error.response.status === 304 ? {} : await error.response.json();
    return `${error.response.status} ${body.code ?? ""}`;
  }
}

async function read(): Promise<void> {
  const connection = new ConnectionApi(configuration);
  const deadline = Date.now() + 30_000;
  for (;;) {
    const state = await connection.connect({ prefer: "wait=5" });
    check(state.user === "alice" && Date.now() < deadline, "alice is connected");
    if (state.sync.phase === "messages" || state.sync.phase === "steady") break;
  }
  const channels = new ChannelsApi(configuration);
  const urls: string[] = [];
  let after: string | undefined;
  for (;;) {
    const page = await channels.listChannels({ limit: 2, after, includeEmpty: true });
    urls.push(...page.items.map((channel) => channel.channelUrl));
    if (!page.hasNext || page.next === null) break;
    after = page.next;
  }
  check(urls.includes("general") && urls.includes("quiet") && new Set(urls).size === urls.length, `pages: ${urls}`);
  const messages = new MessagesApi(configuration);
  const found: Message[] = [];
  let before: string | undefined;
  for (let pages = 0; pages < 5; pages += 1) {
    const page = await messages.listMessages({ channelUrl: "general", limit: 20, before, prefer: "wait=5" });
    found.unshift(...page.items);
    if (!page.hasPrevious || page.previous === null) break;
    before = page.previous;
  }
  check(found.length > 80, `${found.length} messages in pages`);
  const places = found.map((message) => message.position ?? "");
  check(places.every((place, n) => n === 0 || places[n - 1] < place), "in order");
  const one = await messages.getMessage({ channelUrl: "general", messageRef: found[0].messageId });
  check(one.sendingStatus === "succeeded", "one message");
  const tag = (await channels.getChannelRaw({ channelUrl: "quiet" })).raw.headers.get("ETag") ?? "";
  check((await problem(channels.getChannel({ channelUrl: "quiet", ifNoneMatch: tag }))) === "304 ", "304");
  check((await problem(channels.getChannel({ channelUrl: "none" }))) === "404 channel_not_found", "404");
  check((await problem(new OperatorApi(configuration).listUsers({}))) === "403 insufficient_scope", "403");
}

/** The messages that a view shows after an event: its `type` decides which fields it has. */
function shown(event: ChatEvent): Message[] {
  switch (event.type) {
    case "messages.added":
    case "messages.updated":
    case "messages.replaced":
      return event.messages;
    default:
      return [];
  }
}

async function follow(): Promise<void> {
  const collections = new CollectionsApi(configuration);
  const view = await collections.openMessageCollection({
    prefer: "wait=5", messageCollectionRequest: { channelUrl: "general", previousSize: 5 },
  });
  check(view.messages.length >= 5, "a view");
  const first = view.apiResult;
  check(first?.type === "messages.replaced" && first.hasPrevious, "an event has its own type");
  const text = `hello ${Math.random()}`;
  await say(text);
  const deadline = Date.now() + 30_000;
  let cursor = view.cursor;
  for (let isHeard = false; !isHeard; ) {
    check(Date.now() < deadline, "what bob says is heard within 30 s");
    const answer = await collections.pollMessageCollection({ collectionId: view.id, since: cursor, wait: 5 });
    cursor = answer.cursor;
    isHeard = answer.events.some((event) => shown(event).some((message) => message.message === text));
  }
  await collections.disposeMessageCollection({ collectionId: view.id });
  const gone = await problem(collections.getMessageCollection({ collectionId: view.id }));
  check(gone === "404 collection_not_found", "a view that was disposed of is gone");
}

read()
  .then(follow)
  .then(() => console.log(`generated TypeScript client: ${done} checks passed`))
  .catch((error) => {
    console.log("generated TypeScript client:", error);
    process.exit(1);
  });
