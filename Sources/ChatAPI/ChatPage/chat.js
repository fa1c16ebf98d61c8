import { el, button, iconButton, fill, byID, askInDialog } from "./dom.js";
import { Conversation, shared } from "./conversation.js";
import { Composer } from "./composer.js";
import { channelOf } from "./channel_list.js";
import { nameOfChannel, nameOfPerson, listNames } from "./format.js";
import { whyNoWriting, wordsFor } from "./words.js";
import { membersOf } from "./people.js";

// The chat of one channel, with a thread beside it.

/** What the connection allows, for every composer. */
export const abilities = { takesFiles: true };
// What is open now: `talk` and `thread` are conversations with their composers.
let current = null, toggleInspector = () => {};
const openListeners = [];

/** Calls `listener()` when another channel is open or its state changes. */
export const onChat = (listener) => openListeners.push(listener);
/** The conversation that is open, or nothing. */
export const openTalk = () => current?.talk;
/** Sets what the inspector's button does. */
export const setInspectorToggle = (toggle) => { toggleInspector = toggle; };

/** Opens a channel; without a url, closes the open one. */
export function openChat(url) {
  closeThread();
  current?.talk?.close();
  current = url ? { url, askedGap: "" } : null;
  document.body.classList.toggle("chatting", Boolean(url));
  const pane = byID("chat");
  if (!url) return fill(pane, el("p", { class: "empty whole" }, "Choose a channel."));
  const channel = channelOf(url);
  if (channel?.my_member_state === "invited") return fill(pane, headOf(), invitedOf(channel));
  current.composer = new Composer({ channel: url, sent: () => current.talk.follow() });
  current.talk = new Conversation({ channel: url,
    on: { change: chatChanged, thread: openThread, edit: (row) => current.composer.edit(row) } });
  fill(pane, headOf(), current.talk.element, current.composer.element);
  membersOf(url).then(() => current?.talk?.redraw());
  chatChanged();
}

/**
 * Takes the changes of the list into account: an invitation may have become a membership, or the name
 * changed.
 */
export function channelsChanged() {
  if (!current) return;
  const channel = channelOf(current.url);
  if (!current.talk && channel?.my_member_state === "joined") return openChat(current.url);
  if (current.talk && channel?.my_member_state === "invited") return openChat(current.url);
  chatChanged();
}

function headOf() {
  current.title = el("h2", { class: "title" });
  current.members = el("p", { class: "members" });
  return el("header", { class: "pane-head" },
    iconButton("back", "Back to the channels", () => { location.hash = ""; }, { class: "icon back" }),
    el("div", { class: "titles" }, current.title, current.members),
    iconButton("inspect", "Inspector", () => toggleInspector(), { id: "inspector-button" }));
}

function invitedOf(channel) {
  const who = channel.inviter ? `${nameOfPerson(channel.inviter)} invited you to this channel.`
    : "You are invited to this channel.";
  current.title.append(el("bdi", {}, nameOfChannel(channel)));
  return el("p", { class: "empty whole" },
    `${who} Only members can read it. Accept the invitation in your chat app; Perch then shows it here.`);
}

/** The newest known state of the channel. */
const channelNow = () => current.talk?.state.channel ?? channelOf(current.url);

function chatChanged() {
  if (!current?.talk) return;
  const { talk, composer, thread } = current, channel = channelNow(), { view, problem } = talk;
  const name = nameOfChannel(channel) || current.url;
  if (current.title.textContent !== name) fill(current.title, el("bdi", {}, name));
  const count = channel?.member_count ?? 0;
  const isStale = talk.state.tail?.state === "stale"
    && !talk.state.has_next && !shared.isLinkLost;
  const members = [count && `${count} ${count === 1 ? "member" : "members"}`, isStale
    && "looking for newer messages…"]
    .filter(Boolean).join(" · ");
  if (current.members.textContent !== members) current.members.textContent = members;
  const may = { isLost: view?.connection === "lost", takesFiles: abilities.takesFiles };
  if (problem && problem.code !== "unreachable") may.problem = wordsFor(problem);
  const known = channel ?? { my_role: "operator" };
  composer.allow(known, may);
  thread?.composer.allow(known, may);
  lookAtGap();
  openListeners.forEach((listener) => listener());
}

/** Asks once at a huge gap: jump to the newest, or go on from here? */
async function lookAtGap() {
  const { talk } = current, gap = [...talk.view?.gaps.values() ?? []].find(({ state }) => state === "huge");
  if (!gap || current.askedGap === gap.id || !talk.state.has_next) return;
  current.askedGap = gap.id;
  const here = current;
  const missing = gap.estimated_missing ? `About ${gap.estimated_missing} messages` : "Many messages";
  const answer = await askInDialog("Much has happened meanwhile",
    [el("p", {}, `${missing} came that are not here yet.`, " Jump to the newest, or go on from here?")],
    [["stay", "Go on here", "quiet"], ["jump", "Jump to the newest", "main"]]);
  if (answer === "jump" && current === here) talk.toNewest();
}

/** Opens the replies to a message. */
export function openThread(parent) {
  closeThread();
  const pane = byID("thread"), opener = document.activeElement;
  const edit = (row) => current.thread.composer.edit(row);
  const talk = new Conversation({ channel: current.url, parent,
    on: { change: () => {}, thread: () => {}, edit } });
  const composer = new Composer({ channel: current.url, parent, sent: () => talk.follow() });
  current.thread = { talk, composer, opener };
  const row = current.talk.rows.find(({ message_id: id }) => id === parent);
  const first = row && el("blockquote", { class: "thread-parent" },
    el("bdi", { class: "name" }, nameOfPerson(talk.actions.person(row.sender))),
    el("p", { class: "text", dir: "auto" }, (row.message || row.file?.name || "").slice(0, 600)));
  fill(pane, el("header", { class: "pane-head" }, el("h2", { class: "title" }, "Thread"),
    iconButton("close", "Close the thread", closeThread)), first, talk.element, composer.element);
  pane.hidden = false;
  document.body.classList.add("threading");
  chatChanged();
  composer.field.focus();
}

/** Closes the thread, if one is open. */
export function closeThread() {
  const thread = current?.thread;
  if (!thread) return;
  current.thread = null;
  thread.talk.close();
  byID("thread").hidden = true;
  document.body.classList.remove("threading");
  if (thread.opener?.isConnected) thread.opener.focus();
  else current.composer?.field.focus();
}
