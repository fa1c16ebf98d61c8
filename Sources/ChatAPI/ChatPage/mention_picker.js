import { el } from "./dom.js";
import { membersOf } from "./people.js";
import { nameOfPerson } from "./format.js";

// Suggests members after an @, and remembers whom a text mentions.

const MOST_MENTIONED = 6, EVERYBODY = { user_id: "", nickname: "everybody" };
let pickers = 0;

export class MentionPicker {
  #members = null;
  #chosen = new Map();
  #shown = [];
  #at = 0;

  constructor(field, channel) {
    Object.assign(this, { field, channel, id: `mentions-${++pickers}` });
    this.box = el("ul", { class: "mentions", role: "listbox", id: this.id, "aria-label": "Members",
      hidden: true });
    field.setAttribute("aria-controls", this.id);
    field.addEventListener("input", () => this.#look());
    field.addEventListener("blur", () => this.#hide());
    field.addEventListener("keydown", (event) => this.#key(event));
  }

  /** The field with the box of suggestions above it. */
  wrap(field) { return el("div", { class: "field-wrap" }, this.box, field); }

  /** The fields of a message that mention those whose names are still in the text. */
  fields(text) {
    if (text.includes("@everybody")) return { mention_type: "channel" };
    const ids = [...this.#chosen].filter(([name]) => text.includes(name)).map(([, id]) => id);
    return ids.length ? { mention_type: "users", mentioned_user_ids: [...new Set(ids)] } : {};
  }

  /** The name that is being typed before the cursor, or nothing. */
  #typed() {
    return this.field.value.slice(0, this.field.selectionStart).match(/(?:^|\s)@(\S{0,30})$/)?.[1];
  }

  async #look() {
    if (this.#typed() === undefined) return this.#hide();
    this.#members ??= await membersOf(this.channel);
    if (!this.#members?.length) this.#members = null;
    // More may have been typed while the members came.
    const wanted = this.#typed()?.toLowerCase();
    if (wanted === undefined) return this.#hide();
    this.#shown = [...this.#members ?? [], EVERYBODY].filter((member) =>
      [member.nickname, member.user_id].some((name) => name?.toLowerCase().startsWith(wanted))).slice(0,
        MOST_MENTIONED);
    this.#at = 0;
    this.#draw();
  }

  #draw() {
    this.box.hidden = !this.#shown.length;
    this.box.replaceChildren(...this.#shown.map((member, at) => el("li", {
      role: "option", id: `${this.id}-${at}`, "aria-selected": String(at === this.#at),
      onpointerdown: (event) => { event.preventDefault(); this.#choose(member); },
    }, el("bdi", {}, nameOfPerson(member)))));
    if (this.box.hidden) this.field.removeAttribute("aria-activedescendant");
    else this.field.setAttribute("aria-activedescendant", `${this.id}-${this.#at}`);
  }

  #hide() {
    this.#shown = [];
    this.#draw();
  }

  #key(event) {
    if (!this.#shown.length) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.#at = (this.#at + step + this.#shown.length) % this.#shown.length;
    else if (event.key === "Enter" || event.key === "Tab") this.#choose(this.#shown[this.#at]);
    else if (event.key === "Escape") this.#hide();
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.#draw();
  }

  #choose(member) {
    const name = `@${nameOfPerson(member)}`, { selectionStart: at, value } = this.field;
    const start = value.slice(0, at).lastIndexOf("@");
    if (member.user_id) this.#chosen.set(name, member.user_id);
    this.#hide();
    this.field.setRangeText(`${name} `, start, at, "end");
    this.field.dispatchEvent(new Event("input"));
  }
}
