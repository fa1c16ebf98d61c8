import { el } from "./dom.js";

// A log of items. Only the items around the visible part have elements: the window. Each item has a `key` and
// `parts`. If its parts change, its element is built anew; if not, `refresh(element)`, if there is one,
// brings the element up to date. The first visible item stays where it is, unless the log follows its newest
// end.

const MOST_ELEMENTS = 140, STEP = 50, NEAR = 600, FLOOD = 40;

export class MessageList {
  #items = [];
  #elements = new Map();
  // The window: the items whose elements exist.
  #start = 0;
  #end = 0;
  #isFollowing = true;
  #build;
  #on;

  /** Whether the last item is the newest of all. If not, the log does not follow its end. */
  endIsNewest = true;

  /** `build(item)` makes an element. Calls `on.edge(side)` to load more, `on.move()` after scrolling. */
  constructor(label, build, on) {
    this.#build = build;
    this.#on = on;
    this.log = el("div", { class: "log", role: "log", "aria-live": "off", "aria-label": label });
    this.element = el("div", { class: "scroller" }, this.log);
    this.element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.log.addEventListener("keydown", (event) => this.#moveByKey(event));
    this.log.addEventListener("focusin", () => this.#setTabStop());
    // Pictures and other widths change heights: the newest end stays at the bottom.
    new ResizeObserver(() => this.#isFollowing && this.#toBottom()).observe(this.element);
    new ResizeObserver(() => this.#isFollowing && this.#toBottom()).observe(this.log);
  }

  /** Whether the newest item is at the bottom of the visible part. */
  get isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.element;
    return this.#end === this.#items.length && scrollHeight - scrollTop - clientHeight < 40;
  }

  /** Shows these items. `canFlood`: at many new items at once, the visible ones stay. */
  show(items, canFlood = false) {
    const wasWhole = this.#end >= this.#items.length;
    const [first, last] = [this.#items[this.#start]?.key, this.#items[this.#end - 1]?.key];
    const indexes = new Map(items.map(({ key }, index) => [key, index]));
    if (!this.endIsNewest) this.#isFollowing = false;
    const newest = this.#items.findLast(({ key, kind }) => kind === "message" && indexes.has(key));
    if (canFlood && newest && items.length - indexes.get(newest.key) > FLOOD) this.#isFollowing = false;
    const anchor = this.#isFollowing ? null : this.#anchor();
    this.#items = items;
    if (this.#isFollowing || !anchor) this.#setWindow(items.length - MOST_ELEMENTS, items.length);
    else {
      const at = indexes.get(anchor.key) ?? 0;
      const end = wasWhole ? items.length : (indexes.get(last) ?? at + STEP) + 1;
      this.#setWindow(indexes.get(first) ?? at - STEP, end, at);
    }
    this.#draw();
    if (this.#isFollowing) this.#toBottom();
    else this.#restore(anchor);
    this.#fillEdges();
  }

  /** Goes to the newest end and stays there. */
  follow() {
    this.#isFollowing = this.endIsNewest = true;
    this.show(this.#items);
  }

  /** Keeps the window within the items and its size; trims it far from `at`. */
  #setWindow(start, end, at = end) {
    start = Math.max(0, start);
    end = Math.min(this.#items.length, end);
    if (end - start > MOST_ELEMENTS) {
      start = Math.max(start, Math.min(at - MOST_ELEMENTS / 2, end - MOST_ELEMENTS));
      end = Math.min(end, start + MOST_ELEMENTS);
    }
    this.#start = start;
    this.#end = end;
  }

  #draw() {
    const wanted = this.#items.slice(this.#start, this.#end), keys = new Set(wanted.map(({ key }) => key));
    const focused = this.log.contains(document.activeElement) ? document.activeElement : null;
    const focusedKey = focused?.closest("[data-key]")?.dataset.key, act = focused?.dataset.act;
    for (const [key, { element }] of this.#elements) {
      if (keys.has(key)) continue;
      element.remove();
      this.#elements.delete(key);
    }
    let previous = null;
    for (const item of wanted) {
      const element = this.#elementOf(item);
      const next = previous ? previous.nextElementSibling : this.log.firstElementChild;
      if (element !== next) this.log.insertBefore(element, next);
      previous = element;
    }
    if (focused && !focused.isConnected) this.#focusAgain(focusedKey, act);
    this.#setTabStop();
  }

  #elementOf(item) {
    const known = this.#elements.get(item.key);
    if (known && known.parts.length === item.parts.length
      && known.parts.every((part, at) => part === item.parts[at])) {
      item.refresh?.(known.element);
      return known.element;
    }
    const element = this.#build(item);
    element.dataset.key = item.key;
    known?.element.replaceWith(element);
    this.#elements.set(item.key, { element, parts: item.parts });
    return element;
  }

  /** Restores the focus after its element was built anew. */
  #focusAgain(key, act) {
    const element = this.#elements.get(key)?.element;
    const inside = act && [...element?.querySelectorAll("[data-act]")
      ?? []].find((one) => one.dataset.act === act);
    (inside || element)?.focus({ preventScroll: true });
  }

  /** One message at a time, and what is in it, can be reached with Tab; the arrow keys go to the others. */
  #setTabStop() {
    const focused = document.activeElement?.closest?.("article");
    const stop = focused && this.log.contains(focused) ? focused
      : this.log.querySelector("article:last-of-type");
    for (const one of this.log.querySelectorAll("article[tabindex='0']")) one.tabIndex = -1;
    if (stop) stop.tabIndex = 0;
    for (const one of this.log.querySelectorAll("article a, article button")) {
      one.tabIndex = stop.contains(one) ? 0 : -1;
    }
  }

  #moveByKey(event) {
    const article = event.target.closest("article");
    if (!article || event.target !== article) return;
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const all = [...this.log.querySelectorAll("article")];
    const next = step ? all[all.indexOf(article) + step] : event.key === "Home" ? all[0]
      : event.key === "End" ? all.at(-1) : null;
    if (!step && !next) return;
    event.preventDefault();
    if (!next) return this.#on.edge(step < 0 ? "previous" : "next");
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
    this.#setTabStop();
  }

  /** The first visible message, and its top. */
  #anchor() {
    const top = this.element.getBoundingClientRect().top;
    for (const child of this.log.children) {
      const box = child.getBoundingClientRect();
      if (box.bottom > top + 1 && child.matches("article")) return { key: child.dataset.key, top: box.top };
    }
    return null;
  }

  #restore(anchor) {
    const element = anchor && this.#elements.get(anchor.key)?.element;
    if (element) this.element.scrollTop += element.getBoundingClientRect().top - anchor.top;
  }

  #toBottom() {
    this.element.scrollTop = this.element.scrollHeight;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    const below = scrollHeight - scrollTop - clientHeight;
    this.#isFollowing = this.endIsNewest && this.#end === this.#items.length && below < 40;
    this.#fillEdges();
    this.#on.move();
  }

  /** Extends the window above and below the visible part. */
  #fillEdges() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    if (scrollTop < NEAR) this.#extend(-STEP);
    if (scrollHeight - scrollTop - clientHeight < NEAR && !this.#isFollowing) this.#extend(STEP);
  }

  /** Moves the window, or asks for more at an end of the items. */
  #extend(step) {
    const isUp = step < 0;
    if (isUp ? this.#start === 0 : this.#end === this.#items.length) return this.#on.edge(isUp ? "previous"
      : "next");
    const anchor = this.#anchor();
    const start = isUp ? this.#start + step : Math.max(this.#start, this.#end + step - MOST_ELEMENTS);
    const end = isUp ? Math.min(this.#end, start + MOST_ELEMENTS) : this.#end + step;
    this.#setWindow(start, end, isUp ? start : end);
    this.#draw();
    this.#restore(anchor);
  }
}
