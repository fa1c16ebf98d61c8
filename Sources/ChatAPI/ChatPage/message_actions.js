import { el, button, iconButton, askInDialog, notify } from "./dom.js";
import { exactOf, listNames } from "./format.js";
import { session } from "./session.js";
import { changeMessage, dropEntry, retryEntry } from "./outbox.js";
import { personOf, nameOfUser, readersOf } from "./people.js";
import { keyOfRow } from "./rows.js";

// The actions on a message, and the small bar of buttons that comes to the message under the pointer or with
// the focus. There is one bar per log, so that a long log has few elements.

const REACTIONS = ["👍", "❤️", "😂", "🎉", "😮", "😢", "👀", "✅"];

/** The actions of a conversation's messages. */
export function makeActions(talk) {
  const bar = el("div", { class: "actions", role: "toolbar", "aria-label": "Message" });
  const change = (row, kind, more) => changeMessage(talk.channel, row, kind, more);
  return {
    person: personOf,
    edit: (row) => talk.on.edit(row),
    openThread: (id) => talk.on.thread(id),
    react: (row, reaction, add) => change(row, add ? "react" : "unreact", { reaction }),
    resend: (row) => (row.entry ? retryEntry(row.entry) : change(row, "resend")),
    remove: (row) => (row.entry ? dropEntry(row.entry) : change(row, "remove")),
    cancel: (row) => (row.entry && row.isWaiting ? dropEntry(row.entry) : change(row, "remove")),
    attach: (log) => {
      const come = ({ target }) => {
        const article = target.closest?.("article");
        if (article && bar.parentElement !== article && !bar.contains(document.activeElement)) show(article);
      };
      const show = (article) => {
        const row = talk.rows.find((one) => keyOfRow(one) === article.dataset.key);
        if (!row?.message_id || row.type === "admin" || row.pending_delete) return bar.remove();
        bar.replaceChildren(...buttonsFor(row, talk, change));
        article.append(bar);
      };
      log.addEventListener("pointerover", come);
      log.addEventListener("focusin", come);
      log.addEventListener("pointerleave", () => bar.contains(document.activeElement) || bar.remove());
      // During focusout the next element has no focus yet.
      log.addEventListener("focusout", () => setTimeout(() =>
        log.contains(document.activeElement) || log.matches(":hover") || bar.remove()));
    },
  };
}

function buttonsFor(row, talk, change) {
  const own = row.sender?.user_id === session.user, canDelete = own
    || talk.state.channel?.my_role === "operator";
  return [
    iconButton("smile", "React", (event) => pickReaction(event.currentTarget, row, change),
      { "data-act": "react" }),
    !talk.parent && iconButton("reply", "Reply",
      () => talk.on.thread(row.parent_message_id || row.message_id), { "data-act": "reply" }),
    own && row.type === "user" && iconButton("edit", "Edit", () => talk.on.edit(row), { "data-act": "edit" }),
    iconButton("info", "Details", () => showDetails(row, talk), { "data-act": "info" }),
    canDelete && iconButton("trash", "Delete", () => confirmDelete(row, change), { "data-act": "delete" }),
  ].filter(Boolean);
}

function pickReaction(opener, row, change) {
  const close = () => {
    picker.remove();
    opener.focus();
  };
  const picker = el("div", { class: "picker", role: "group", "aria-label": "Reactions" },
    REACTIONS.map((reaction) =>
    button(reaction, () => { change(row, "react", { reaction }); close(); },
      { "aria-label": `React with ${reaction}` })));
  picker.addEventListener("keydown", (event) => {
    if (event.key === "Escape") event.stopPropagation(), close();
  });
  // During focusout the next element has no focus yet, and no element must be removed.
  picker.addEventListener("focusout",
    () => setTimeout(() => picker.contains(document.activeElement) || picker.remove()));
  opener.after(picker);
  picker.firstElementChild.focus();
}

async function confirmDelete(row, change) {
  const text = el("p", { class: "quoted", dir: "auto" }, (row.message || row.file?.name || "").slice(0, 300));
  const answers = [["", "Keep it", "quiet"], ["delete", "Delete", "danger"]];
  if (await askInDialog("Delete this message for everybody?", [text], answers) === "delete") change(row,
    "delete");
}

function showDetails(row, talk) {
  const readers = readersOf(talk.state.channel, row.created_at, row.sender?.user_id).map(nameOfUser);
  const facts = [
    ["Sent", exactOf(row.created_at)],
    row.updated_at > 0 && ["Edited", exactOf(row.updated_at)],
    !talk.state.channel?.reader_count && ["Read by", readers.length ? listNames(readers) : "nobody yet"],
    ["message_id", row.message_id],
    row.request_id && ["request_id", row.request_id],
  ].filter(Boolean);
  askInDialog("Message", [el("dl", { class: "facts" }, facts.map(([name, value]) =>
    [el("dt", {}, name), el("dd", {}, el("bdi", {}, value))]))], [["", "Close", "main"]]);
}
