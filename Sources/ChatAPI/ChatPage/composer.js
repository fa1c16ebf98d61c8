import { el, button, iconButton, notify } from "./dom.js";
import { sendMessage, changeMessage } from "./outbox.js";
import { MentionPicker } from "./mention_picker.js";
import { whyNoWriting } from "./words.js";
import { sizeOf } from "./format.js";
import { textOf } from "./rows.js";

// The field to write in. Drafts stay in sessionStorage by channel and thread, so a reload loses nothing.

const LARGEST_FILE = 25 * 1024 * 1024, TALLEST = 180;

export class Composer {
  #editing = null;
  #file = null;
  #parent;
  #channel;
  #sent;

  /** `sent()` is called after each message. */
  constructor({ channel, parent, sent }) {
    this.#channel = channel;
    this.#parent = parent;
    this.#sent = sent;
    const label = parent ? "Reply" : "Message";
    this.field = el("textarea", { rows: "1", "aria-label": label, placeholder: `${label}…`, dir: "auto",
      class: "field" });
    this.mentions = new MentionPicker(this.field, channel);
    this.files = el("input", { type: "file", class: "hidden-file", tabindex: "-1", "aria-hidden": "true" });
    this.attach = iconButton("attach", "Attach a file", () => this.files.click());
    this.submit = iconButton("send", "Send", () => this.send(), { class: "icon send" });
    this.note = el("div", { class: "composer-note", hidden: true });
    this.reason = el("p", { class: "reason", role: "status" });
    this.also = el("input", { type: "checkbox" });
    const also = parent && el("label", { class: "also" }, this.also, " Show it in the channel, too");
    this.element = el("div", { class: "composer" }, this.note, this.reason, also,
      el("div", { class: "line" }, this.attach, this.files, this.mentions.wrap(this.field), this.submit));
    this.#listen();
    this.field.value = sessionStorage.getItem(this.#draftKey) ?? "";
  }

  get #draftKey() { return `perch.draft.${this.#channel}.${this.#parent ?? ""}`; }

  #listen() {
    this.field.addEventListener("input", () => this.#typed());
    this.field.addEventListener("keydown", (event) => this.#key(event));
    this.field.addEventListener("paste", (event) => this.#take(event, event.clipboardData));
    this.element.addEventListener("dragover", (event) => event.preventDefault());
    this.element.addEventListener("drop", (event) => this.#take(event, event.dataTransfer));
    this.files.addEventListener("change", () => {
      this.choose(this.files.files[0]);
      this.files.value = "";
    });
  }

  #typed() {
    if (!this.#editing) sessionStorage.setItem(this.#draftKey, this.field.value);
    this.#grow();
  }

  #grow() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(TALLEST, this.field.scrollHeight)}px`;
  }

  #key(event) {
    if (event.defaultPrevented || event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.send();
    } else if (event.key === "Escape" && (this.#editing || this.#file)) {
      event.stopPropagation();
      this.clear();
    }
  }

  #take(event, data) {
    const [file] = data?.files ?? [];
    if (!file) return;
    event.preventDefault();
    this.choose(file);
  }

  /** Takes a file to send, unless it is too large or empty. */
  choose(file) {
    if (!file || this.field.disabled) return;
    if (file.size > LARGEST_FILE) {
      const most = `A file may have ${sizeOf(LARGEST_FILE)} at most.`;
      return notify(`${file.name.slice(0, 100)} has ${sizeOf(file.size)}. ${most}`, true);
    }
    if (!file.size) return notify(`${file.name.slice(0, 100)} is empty.`, true);
    this.#editing = null;
    this.#file = file;
    this.#showNote(`${file.name} · ${sizeOf(file.size)}`, "Leave the file out");
    this.field.focus();
  }

  /** Changes a message instead of writing a new one. */
  edit(row) {
    this.#file = null;
    this.#editing = row;
    this.field.value = textOf(row);
    this.#showNote("You change a message", "Do not change it");
    this.field.focus();
    this.#grow();
  }

  #showNote(text, label) {
    this.note.replaceChildren(el("bdi", {}, text), iconButton("close", label, () => this.clear()));
    this.note.hidden = false;
  }

  /** Drops the edit or the file; a draft stays. */
  clear() {
    if (this.#editing) this.field.value = sessionStorage.getItem(this.#draftKey) ?? "";
    this.#editing = this.#file = null;
    this.note.hidden = true;
    this.field.focus();
    this.#grow();
  }

  async send() {
    const text = this.field.value.trim(), file = this.#file, row = this.#editing;
    if (this.field.disabled || (!text && !file)) return;
    const mentions = this.mentions.fields(text);
    if (row) {
      if (text !== textOf(row)) changeMessage(this.#channel, row, "edit",
        { body: { message: text, ...mentions } });
      return this.clear();
    }
    const reply = this.#parent && { parent_message_id: this.#parent,
      ...(this.also.checked && { is_reply_to_channel: true }) };
    const fields = { ...(text && { message: text }), ...mentions, ...reply };
    this.field.value = "";
    sessionStorage.removeItem(this.#draftKey);
    this.clear();
    // A chat server's file messages cannot have a text, so the text follows as a message of its own.
    if (file) await sendMessage(this.#channel, { ...reply }, file);
    if (text) await sendMessage(this.#channel, fields);
    this.#sent();
  }

  /** Lets the user write or says why not. */
  allow(channel, { isLost, takesFiles, problem }) {
    const why = isLost ? "You are not in this channel now." : problem ?? whyNoWriting(channel);
    if (this.reason.textContent !== why) this.reason.textContent = why;
    this.reason.hidden = !why;
    this.field.disabled = this.submit.disabled = Boolean(why);
    this.attach.disabled = Boolean(why) || !takesFiles;
    if (channel?.max_message_length) this.field.maxLength = channel.max_message_length;
  }
}
