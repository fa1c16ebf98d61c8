import { el, button, notify, announce, iconButton } from "./dom.js";
import { openView } from "./transport.js";
import { SharedEventSource, feed } from "./feed.js";
import { session } from "./session.js";
import { MessageList } from "./message_list.js";
import { itemsOf, buildItem } from "./log_items.js";
import { rowsWithEntries } from "./rows.js";
import { settleEntries, onOutbox, markAsRead } from "./outbox.js";
import { wordsFor } from "./words.js";
import { personOf, notePerson } from "./people.js";
import { nameOfPerson } from "./format.js";
import { makeActions } from "./message_actions.js";

// A live log of a channel or of a thread: a view of client.js, shown by a MessageList.

const FIELDS = { include_reactions: true, include_thread_info: true, include_parent_message: true };
const REDRAW_EVERY = 30, RETRY_PAUSE = 3000, READ_EVERY = 1000;

/** What every log shows of the whole page: uploads, and whether the chat server is lost. */
export const shared = { percents: new Map(), isLinkLost: false };
const all = new Set();

/** Draws every open log again. */
export const redrawAll = () => all.forEach((one) => one.redraw());
onOutbox(redrawAll);

export class Conversation {
  rows = [];
  view = null;
  /** Why nothing is shown. @type {object?} */
  problem = null;
  #timer = 0;
  #isLoading = {};
  #isClosed = false;
  #newCount = 0;
  #seen = 0;
  #memory = { headers: new Map(), missing: new Map() };

  /** Calls `on.change()` after each change, `on.thread(id)` to open a thread, `on.edit(row)` to edit. */
  constructor({ channel, parent, on }) {
    Object.assign(this, { channel, parent, on });
    this.actions = makeActions(this);
    const label = parent ? "Replies" : "Messages";
    this.list = new MessageList(label, (item) => buildItem(item, this),
      { edge: (side) => this.load(side), move: () => this.#moved() });
    this.jump = button("New messages", () => this.toNewest(), { class: "jump", hidden: true });
    this.element = el("div", { class: "conversation" }, this.list.element, this.jump);
    this.actions.attach(this.list.log);
    all.add(this);
    this.#open();
  }

  get state() { return this.view?.state ?? {}; }

  /** Opens the view, and tries again while there is no answer. */
  async #open() {
    while (!this.#isClosed) {
      try {
        const fields = { ...FIELDS, reply_type: "only_reply_to_channel",
          ...(this.parent && { parent_message_id: this.parent }) };
        const view = await openView(this.channel, fields, SharedEventSource);
        if (this.#isClosed) return void view.close();
        this.problem = null;
        this.view = view;
        this.wasLive = false;
        this.unreadFrom ??= this.state.channel?.unread_message_count ? this.state.channel.my_last_read_at
          : Infinity;
        view.listen((added) => view === this.view && this.#arrived(added));
        return;
      } catch (error) {
        this.problem = error.problem ?? { detail: error.message };
        this.redraw();
        if (!error.passes && error.problem?.code !== "unreachable") return;
        await new Promise((go) => setTimeout(go, RETRY_PAUSE));
      }
    }
  }

  /** Closes the view and opens it at the newest messages. The old rows stay until then. */
  async toNewest() {
    this.jump.hidden = true;
    this.#newCount = 0;
    if (!this.state.has_next) return this.list.follow();
    const old = this.view;
    await this.#open();
    old.close();
    this.list.follow();
  }

  #arrived(added) {
    added.forEach((row) => notePerson(row.sender));
    const fresh = added.filter((row) => row.message_id && row.sender?.user_id !== session.user
      && row.created_at > this.#seen);
    if (this.#seen && fresh.length && fresh.length < 20) {
      const newest = fresh.at(-1), sender = nameOfPerson(personOf(newest.sender));
      announce(`${sender}: ${(newest.message || newest.file?.name || "").slice(0, 200)}`);
      if (!this.list.isAtEnd) this.#newCount += fresh.length;
    }
    this.#seen = Math.max(this.#seen || 1, ...added.map((row) => (row.message_id ? row.created_at : 0)));
    this.redraw();
  }

  redraw() {
    this.#timer ||= setTimeout(() => {
      this.#timer = 0;
      if (!this.#isClosed) this.#draw();
    }, REDRAW_EVERY);
  }

  #draw() {
    const messages = this.view?.connection === "lost" ? [] : this.view?.messages ?? [];
    settleEntries(this.channel, messages);
    this.rows = rowsWithEntries(messages, this.channel, this.parent);
    this.list.endIsNewest = !this.state.has_next;
    this.list.show(itemsOf(this, this.#memory, shared), this.wasLive);
    // Once the tail was live, many messages at once are some that were missed.
    this.wasLive ||= this.state.tail?.state === "live";
    this.#moved();
    this.on.change();
  }

  #moved() {
    const isAtEnd = this.list.isAtEnd, hasNewer = this.state.has_next && this.state.newest;
    if (isAtEnd && !this.state.has_next) this.#newCount = 0;
    this.jump.hidden = (isAtEnd && !this.state.has_next) || !(this.rows.length);
    const words = this.#newCount ? `${this.#newCount} new message${this.#newCount > 1 ? "s" : ""}` : hasNewer
      ? "New messages" : "To the newest";
    if (this.jump.textContent !== words) this.jump.textContent = words;
    this.jump.classList.toggle("fresh", Boolean(this.#newCount || hasNewer));
    if (isAtEnd) this.markRead();
  }

  /** Marks the channel as read while its newest message is seen. */
  markRead() {
    const { channel } = this.state;
    if (this.parent || !channel?.unread_message_count || this.state.has_next || document.hidden
      || !document.hasFocus()) return;
    // At most once per READ_EVERY. The timer marks what came in between.
    const pause = (this.readAt ?? 0) + READ_EVERY - Date.now();
    if (pause > 0) return void (this.readTimer ??= setTimeout(() => this.redraw(this.readTimer = null),
      pause));
    this.readAt = Date.now();
    markAsRead(this.channel);
  }

  isLoading(side) { return Boolean(this.#isLoading[side]); }

  /** Loads older or newer rows, one page at a time. */
  async load(side) {
    if (this.#isLoading[side] || !this.view || !this.state[`has_${side}`]
      || this.view.connection !== "live") return;
    this.#isLoading[side] = true;
    this.redraw();
    try {
      await this.view[side]();
      this.loadProblem = null;
    } catch (error) {
      this.loadProblem = error.problem ?? { detail: error.message };
      await new Promise((go) => setTimeout(go, RETRY_PAUSE));
    }
    this.#isLoading[side] = false;
    this.redraw();
  }

  /** Goes to the newest end, as after sending. */
  follow() { return this.state.has_next ? this.toNewest() : this.list.follow(); }

  close() {
    this.#isClosed = true;
    all.delete(this);
    this.view?.close();
    this.element.remove();
  }
}
