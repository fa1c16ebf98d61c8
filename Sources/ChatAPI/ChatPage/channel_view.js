import { ask } from "./transport.js";
import { follow } from "./feed.js";
import { inOrder } from "./channel_order.js";

// A live list of channels: opened with a query, kept current by its events, read again if events are lost.

const REOPEN_PAUSE = 1500;
const LISTS_PATH = "/v1/channel-collections";

export class ChannelView {
  #channels = new Map();
  #unfollow = () => {};
  #isClosed = false;
  #next = null;
  id = "";
  hasNext = false;
  isComplete = true;
  problem = null;
  isOpen = false;

  /** `onchange()` is called after each change. */
  constructor(query, onchange) {
    Object.assign(this, { query, onchange });
    this.#read();
  }

  /** The channels, in the order of the query. */
  get channels() { return inOrder(this.#channels.values(), this.query.order); }

  /** The channel with this url. */
  get(channel) { return this.#channels.get(channel); }

  async #read() {
    while (!this.#isClosed) {
      try {
        return this.#show(await (this.id ? ask("GET", `${LISTS_PATH}/${this.id}`)
          : ask("POST", LISTS_PATH, { query: this.query })));
      } catch (error) {
        this.problem = error.problem ?? { detail: error.message };
        if (error.problem?.status === 404) this.id = "";
        else if (!error.passes && error.problem?.code !== "unreachable") return this.onchange();
      }
      this.onchange();
      await new Promise((go) => setTimeout(go, REOPEN_PAUSE));
    }
  }

  #show(answer) {
    if (this.#isClosed) return this.close();
    Object.assign(this, { id: answer.id, problem: null, isOpen: true });
    this.#channels = new Map(answer.channels.map((channel) => [channel.channel_url, channel]));
    this.#note(answer);
    this.isComplete = answer.complete;
    this.#unfollow = follow(`${LISTS_PATH}/${this.id}`, answer.cursor, {
      onevents: (events) => {
        events.forEach((event) => this.#apply(event));
        this.onchange();
      },
      onlost: () => this.#read(),
    });
    this.onchange();
  }

  #apply(event) {
    if (event.type === "channels.added" || event.type === "channels.updated") {
      event.channels.forEach((channel) => this.#channels.set(channel.channel_url, channel));
    } else if (event.type === "channels.deleted") {
      event.channel_urls.forEach((url) => this.#channels.delete(url));
      this.#note(event);
    } else if (event.type === "channel.read") {
      const channel = this.#channels.get(event.channel_url);
      if (channel && !channel.reader_count) channel.read_receipts = { ...channel.read_receipts, [event.user_id]: event.read_at };
    }
  }

  #note({ next, has_next: hasNext }) {
    if (hasNext === undefined) return;
    this.#next = next;
    this.hasNext = hasNext;
  }

  /** Loads the next page. */
  async more() {
    if (!this.#next || this.isLoading) return;
    this.isLoading = true;
    try {
      const page = await ask("POST", `${LISTS_PATH}/${this.id}/more`, { after: this.#next });
      page.items.forEach((channel) => this.#channels.set(channel.channel_url, channel));
      this.#note(page);
      this.isComplete = page.complete;
    } catch (error) {
      this.problem = error.problem;
    }
    this.isLoading = false;
    this.onchange();
  }

  close() {
    this.#isClosed = true;
    this.#unfollow();
    if (this.id) ask("DELETE", `${LISTS_PATH}/${this.id}`).catch(() => {});
  }
}
