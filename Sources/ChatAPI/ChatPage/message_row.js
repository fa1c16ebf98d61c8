import { el, button, iconOf } from "./dom.js";
import { clockOf, exactOf, colourOf, initialsOf, nameOfPerson, listNames } from "./format.js";
import { wordsFor, wordsForFailure } from "./words.js";
import { richText } from "./rich_text.js";
import { attachmentOf } from "./attachment.js";
import { keyOfRow, reactionsOf, textOf } from "./rows.js";
import { session } from "./session.js";

// One message as the log shows it. Rows are built anew when their message changes.

/** A round picture with the first letter of a name. */
export function avatarOf(id, name) {
  return el("span", { class: `avatar ${colourOf(id)}`, "aria-hidden": "true" }, initialsOf(name));
}

/** Whether the user is the message's sender. */
export const isOwn = (row) => row.sender?.user_id === session.user
  || (!row.message_id && row.type !== "admin");

/** Builds a message. `acts`: the actions on it; `has`: what is shown around it. */
export function buildMessage(row, has, acts) {
  const sender = nameOfPerson(acts.person(row.sender)), own = isOwn(row);
  const kind = [
    "message", own && "own", row.type === "admin" && "admin", has.header && "first",
    row.pending_delete && "leaving", row.sending_status !== "succeeded" && row.sending_status,
  ].filter(Boolean).join(" ");
  const body = el("div", { class: "body" },
    has.header && row.type !== "admin" && headerOf(row, sender),
    parentOf(row, has, acts),
    bubbleOf(row, has),
    reactionBar(row, acts),
    threadLink(row, has, acts),
    stateOf(row, has, acts));
  const label = [row.type === "admin" ? "Notice" : sender, clockOf(row.created_at)].join(", ");
  return el("article", { class: kind, tabindex: "-1", "aria-label": label, "data-key": keyOfRow(row) },
    row.type !== "admin" && (has.header ? avatarOf(row.sender?.user_id ?? "", sender)
      : el("span", { class: "no-avatar" })),
    body);
}

function headerOf(row, sender) {
  return el("header", {},
    el("bdi", { class: "name" }, sender), " ",
    el("time", { datetime: new Date(row.created_at).toISOString(), title: exactOf(row.created_at) },
      clockOf(row.created_at)));
}

function parentOf(row, has, acts) {
  const parent = row.parent_message;
  if (!row.parent_message_id || has.isThread) return null;
  const words = parent && (parent.message || parent.file?.name || "…");
  const text = parent ? `${nameOfPerson(acts.person(parent.sender))}: ${words}` : "a message";
  return button([iconOf("reply"), el("bdi", {}, text.slice(0, 200))],
    () => acts.openThread(row.parent_message_id), { class: "parent" });
}

function bubbleOf(row, has) {
  const text = textOf(row), isAlone = text.length <= 24
    && /^(\p{Extended_Pictographic}|\u200d|\ufe0f|\p{Emoji_Modifier})+$/u.test(text);
  const edited = row.updated_at > 0 && row.type !== "admin" && el("span", { class: "edited" }, " (edited)");
  const words = text && el("p", { class: isAlone ? "text large" : "text", dir: "auto" },
    richText(text, row.mentioned_users ?? []), edited);
  const unknown = row.type === "other"
    && el("p", { class: "text unknown" }, "A kind of message that this page does not know.");
  return el("div", { class: has.mentionsMe ? "bubble mentioned" : "bubble" }, words, unknown,
    row.type === "file" && attachmentOf(row));
}

function reactionBar(row, acts) {
  const all = reactionsOf(row);
  if (!all.length) return null;
  return el("div", { class: "reactions" },
    all.slice(0, 30).map(({ key, count, isOwn: own, isWaiting, users }) => {
    const names = listNames(users.map((id) => nameOfPerson(acts.person({ user_id: id }))));
    return el("button", {
      type: "button", class: isWaiting ? "reaction waiting" : "reaction", "aria-pressed": String(own),
      "aria-label": `${key.slice(0, 40)}, ${count}: ${names.slice(0, 200)}`, title: names.slice(0, 200),
        "data-act": `react-${key}`,
      onclick: () => acts.react(row, key, !own),
    }, el("bdi", {}, key), ` ${count}`);
  }));
}

function threadLink(row, has, acts) {
  const count = row.thread_info?.reply_count ?? 0;
  if (!count || has.isThread) return null;
  return button([iconOf("reply"), count === 1 ? "1 reply" : `${count} replies`],
    () => acts.openThread(row.message_id), { class: "thread-link", "data-act": "thread" });
}

/** The state of an own message, with buttons to change it. */
function stateOf(row, has, acts) {
  if (row.pending_delete) return el("p", { class: "state" }, "Is being deleted…");
  if (row.sending_status === "failed") return failedState(row, acts);
  if (row.sending_status === "canceled") return el("p", { class: "state" }, "Taken back. ",
    unsentButtons(row, acts));
  if (row.sending_status === "pending") return pendingState(row, has, acts);
  if (row.pending_edit) return el("p", { class: "state" }, "The change is being sent…");
  return has.readBy ? el("p", { class: "state read" }, has.readBy) : null;
}

function failedState(row, acts) {
  const why = row.problem ? wordsFor(row.problem) : wordsForFailure(row.error);
  return el("p", { class: "state wrong" }, el("bdi", {}, why.slice(0, 600)), " ", unsentButtons(row, acts));
}

function pendingState(row, has, acts) {
  const words = row.isWaiting ? "Waits for Perch…" : has.isLinkLost ? "Is sent when the chat server is back."
    : "Sending…";
  const isFile = row.type === "file" && has.part !== undefined;
  const bar = isFile && el("progress", { max: "100", value: String(has.part), "aria-label": "Upload" });
  return el("p", { class: "state" }, bar, isFile ? partWords(has.part) : `${words} `,
    button("Cancel", () => acts.cancel(row), { class: "quiet", "data-act": "cancel" }),
    row.type === "user" && button("Edit", () => acts.edit(row), { class: "quiet", "data-act": "edit" }));
}

const partWords = (part) => ` ${part} % `;

/** Shows how much of an upload is done, in the element of its message. */
export function showPart(element, part) {
  const bar = element.querySelector(".state progress");
  if (!bar || part === undefined) return;
  bar.value = part;
  bar.nextSibling.data = partWords(part);
}

function unsentButtons(row, acts) {
  return [
    button("Send again", () => acts.resend(row), { class: "quiet", "data-act": "resend" }), " ",
    button("Remove", () => acts.remove(row), { class: "quiet", "data-act": "remove" }),
  ];
}
