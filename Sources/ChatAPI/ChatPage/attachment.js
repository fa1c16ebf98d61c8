import { el, iconOf } from "./dom.js";
import { askForFile, channelPath } from "./transport.js";
import { safeURL, linkTo } from "./rich_text.js";
import { sizeOf } from "./format.js";

// The file of a message: a picture, sound or film where the browser may show it here, else a link.

const PICTURE = /^image\/(png|jpeg|gif|webp|avif)$/, SOUND = /^audio\//, FILM = /^video\/(mp4|webm|ogg)$/;
const MOST_PREVIEWED = 200;

// The origins that the page's policy lets the browser load pictures from. Files from elsewhere are links.
const named = document.querySelector("meta[name=file-origins]")?.content.split(" ").filter(Boolean) ?? [];
const allowedOrigins = [location.origin, ...named];
// The stand-in's address, whose files the demo serves at this origin.
let standIn = "";
// Addresses of bytes that were fetched for unsent messages, by request_id.
const blobs = new Map();

/** Names the demo's stand-in. */
export const setStandIn = (address) => { standIn = address; };

/** The address of a file that the browser can open from here. */
function addressOf(url) {
  const files = `${standIn}/files/`;
  return standIn && url.startsWith(files) ? `/demo/files/${url.slice(files.length)}` : url;
}

/** What a file message shows. */
export function attachmentOf(row) {
  const { url = "", name = "", mime = "", size } = row.file ?? {}, label = name || "File";
  const address = url ? safeURL(addressOf(url)) : "";
  const preview = address ? mediaOf(address, mime, label) : unsentPreview(row, mime, label);
  const text = [el("bdi", {}, label),
    el("small", {}, [sizeOf(size), mime.slice(0, 60)].filter(Boolean).join(" · "))];
  const card = address
    ? linkTo(address, [iconOf("file"), el("span", {}, ...text)], { class: "file" })
    : el("span", { class: "file" }, iconOf("file"), el("span", {}, ...text));
  return el("div", { class: "attachment" }, preview, card);
}

const isAllowed = (address) => allowedOrigins.includes(new URL(address).origin);

function mediaOf(address, mime, label) {
  if (!address.startsWith("blob:") && !isAllowed(address)) return null;
  if (PICTURE.test(mime)) return pictureOf(address, label);
  if (SOUND.test(mime)) return el("audio",
    { src: address, controls: true, preload: "none", "aria-label": label });
  return FILM.test(mime) ? el("video", { src: address, controls: true, preload: "none",
    "aria-label": label }) : null;
}

function pictureOf(address, label) {
  const picture = el("img", { src: address, alt: label, loading: "lazy", decoding: "async" });
  // Bytes that are no picture are not shown as a broken one.
  picture.addEventListener("error", () => picture.remove());
  return el("span", { class: "picture" }, picture);
}

/** The picture of a message that is not sent: from this page, or from Perch with the token. */
function unsentPreview(row, mime, label) {
  if (!PICTURE.test(mime) || !row.request_id) return null;
  const known = blobs.get(row.request_id);
  if (known) return pictureOf(known, label);
  const frame = el("span", { class: "picture" });
  const show = (blob) => frame.replaceWith(pictureOf(keepBlob(row.request_id, blob), label));
  if (row.entry?.blob) return pictureOf(keepBlob(row.request_id, row.entry.blob), label);
  if (row.entry) return null;
  askForFile(channelPath(row.channel_url, `/messages/request_id:${row.request_id}`)).then(show,
    () => frame.remove());
  return frame;
}

function keepBlob(id, blob) {
  if (blobs.size >= MOST_PREVIEWED) {
    const [oldest, address] = blobs.entries().next().value;
    URL.revokeObjectURL(address);
    blobs.delete(oldest);
  }
  blobs.set(id, URL.createObjectURL(blob));
  return blobs.get(id);
}
