// Builds elements. Text goes in as text nodes only, so nothing that somebody wrote is ever read as markup.

/**
 * An element with properties, attributes and children:
 *
 *     el("button", { class: "quiet", type: "button", onclick: send, "aria-label": "Send" }, "Send")
 *
 * Names that begin with `on` are listeners. `null`, `undefined` and `false` leave an attribute or a child
 * out.
 */
export function el(tag, attributes = {}, ...children) {
  return fill(setAll(document.createElement(tag), attributes), ...children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(setAll(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes), ...children);
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(2).filter((child) => child != null && child !== false));
  return element;
}

function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  return element;
}

/** The element of the page with that id. */
export const byID = (id) => document.getElementById(id);

/** A button of text. */
export function button(label, onclick, attributes = {}) {
  return el("button", { type: "button", onclick, ...attributes }, label);
}

/** A button that shows an icon; its label is for screen readers and the tooltip. */
export function iconButton(icon, label, onclick, attributes = {}) {
  const all = { type: "button", class: "icon", "aria-label": label, title: label, onclick, ...attributes };
  return el("button", all, iconOf(icon));
}

const ICON_PATHS = {
  back: "M15 5l-7 7 7 7",
  close: "M6 6l12 12M18 6L6 18",
  reply: "M10 7L5 12l5 5M5 12h9a5 5 0 015 5v1",
  smile: "M12 21a9 9 0 100-18 9 9 0 000 18zM9 10h.01M15 10h.01M8.5 14.5a4.5 4.5 0 007 0",
  edit: "M4 20h4L19 9l-4-4L4 16v4zM14 6l4 4",
  trash: "M5 7h14M10 11v6M14 11v6M7 7l1 13h8l1-13M9 7V4h6v3",
  info: "M12 21a9 9 0 100-18 9 9 0 000 18zM12 11v5M12 8h.01",
  attach: "M20 11l-8.5 8.5a5 5 0 01-7-7L13 4a3.5 3.5 0 015 5l-8.5 8.5a2 2 0 01-3-3L14 7",
  send: "M4 12l16-8-6 16-3-7-7-1z",
  inspect: "M4 6h16M4 12h10M4 18h7M17 15l3 3-3 3",
  file: "M6 3h8l4 4v14H6V3zM14 3v4h4",
  down: "M12 5v14M6 13l6 6 6-6",
};

/** One of the page's own icons, hidden from screen readers. */
export function iconOf(name) {
  return svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: ICON_PATHS[name] }));
}

/** Tells screen readers something that changed. */
export function announce(text) {
  byID("status").textContent = text;
}

/** Shows a short note that goes away by itself; a failure is an alert and stays longer. */
export function notify(text, isFailure = false) {
  const note = el("div", { class: isFailure ? "note failure" : "note" }, el("span", { dir: "auto" }, text));
  note.append(iconButton("close", "Close this note", () => note.remove()));
  byID(isFailure ? "alerts" : "notes").append(note);
  setTimeout(() => note.remove(), isFailure ? 12_000 : 4_000);
}

/** Asks a question in a dialog. Gives the value of the chosen answer, or nothing if it was closed. */
export function askInDialog(title, content, answers) {
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, el("h2", { id: "dialog-title" }, title));
  dialog.append(...content, el("div", { class: "answers" }, answers.map(([value, label, kind]) =>
    button(label, () => dialog.close(value), { class: kind }))));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
  });
}
