import { el } from "./dom.js";

// Text of messages: links to http and https, and the names of those who are mentioned. All else is plain
// text.

const LINK = /https?:\/\/[^\s<>"'`]+/gi, LONGEST_LINK = 2048;

/** The address if a browser may open it, else nothing: no `javascript:`, no `data:`. */
export function safeURL(address) {
  try {
    const url = new URL(address, location.href);
    return /^https?:$/.test(url.protocol) ? url.href : "";
  } catch {
    return "";
  }
}

/** A link that opens in another tab and tells the other side nothing. */
export const linkTo = (address, label, attributes = {}) =>
  el("a", { href: address, target: "_blank", rel: "noopener noreferrer", ...attributes }, label);

/** The parts of a text, as nodes. */
export function richText(text, mentioned = []) {
  const nodes = [];
  let at = 0;
  for (const match of text.matchAll(LINK)) {
    const address = match[0].replace(/[.,;:!?)\]]+$/, ""), url = address.length <= LONGEST_LINK
      && safeURL(address);
    if (!url) continue;
    nodes.push(...withMentions(text.slice(at, match.index), mentioned), linkTo(url, address));
    at = match.index + address.length;
  }
  return [...nodes, ...withMentions(text.slice(at), mentioned)];
}

function withMentions(text, mentioned) {
  const names = mentioned.flatMap(({ nickname, user_id }) =>
    [nickname, user_id]).filter(Boolean).map((name) => `@${name}`);
  const nodes = [];
  for (let rest = text; rest;) {
    const found = names.map((name) => [rest.indexOf(name), name]).filter(([index]) => index >= 0);
    if (!found.length) return [...nodes, rest];
    const [index, name] = found.sort((a, b) => a[0] - b[0] || b[1].length - a[1].length)[0];
    nodes.push(rest.slice(0, index), el("bdi", { class: "mention" }, name));
    rest = rest.slice(index + name.length);
  }
  return nodes;
}
