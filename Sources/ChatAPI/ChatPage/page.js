import { el, byID, fill, button } from "./dom.js";
import { ask } from "./transport.js";
import { session, showSignIn, signOut, demoUsers } from "./session.js";
import { startFeed, onEvents, onFeedState, feed } from "./feed.js";
import { startOutbox, onOutbox, waitingCount } from "./outbox.js";
import { startChannelList, markOpenChannel, onChannels, unreadCount, channelOf } from "./channel_list.js";
import { shared, redrawAll } from "./conversation.js";
import { openChat, channelsChanged, closeThread, abilities, setInspectorToggle } from "./chat.js";
import { setStandIn } from "./attachment.js";
import { nameOfChannel } from "./format.js";
import { startInspector, toggleDrawer, closeDrawer } from "./inspector.js";

// The page itself: the user, the channel that the address names, and the banner that says what cannot be
// reached.

const LINK_WORDS = {
  upstream_auth: "The chat server refuses the key of Perch.",
  upstream_untrusted: "The certificate of the chat server is not trusted.",
  no_upstream: "Perch has no chat server.",
};

async function begin() {
  byID("app").hidden = false;
  fill(byID("self"), el("bdi", {}, session.user));
  byID("sign-out").addEventListener("click", signOut);
  onFeedState(showBanners);
  onOutbox(showBanners);
  onChannels(showTitle);
  onEvents(hearEvents);
  startInspector();
  setInspectorToggle(toggleDrawer);
  startChannelList((url) => { location.hash = `#/${encodeURIComponent(url)}`; });
  onChannels(channelsChanged);
  addEventListener("hashchange", openAddressed);
  addEventListener("keydown", closeByKey);
  addEventListener("focus", redrawAll);
  openAddressed();
  fetchStandIn();
  await startFeed(connectUser);
  startOutbox();
}

/** Connects the user, which also tells the state of the link. Gives the cursor of that moment, if it is known. */
async function connectUser() {
  try {
    const answer = await ask("PUT", "/v1/connection");
    abilities.takesFiles = answer.capabilities?.uploads !== false;
    noteConnection(answer);
    return answer.cursor;
  } catch (error) {
    const code = error.problem?.code;
    if (code && code !== "unreachable") noteConnection({ state: "offline", link: code });
    if (!code || error.passes) throw error;
    return "now";
  }
}

async function fetchStandIn() {
  const answer = await fetch("/demo").catch(() => null);
  if (!answer?.ok) return;
  setStandIn((await answer.json()).origin_url);
  redrawAll();
}

const channelInAddress = () => {
  try {
    return decodeURIComponent(location.hash.slice(2));
  } catch {
    return "";
  }
};

function openAddressed() {
  const url = channelInAddress();
  markOpenChannel(url);
  openChat(url);
  // With a mouse the user can write at once; on a touch screen the focus would open its keyboard.
  if (url && matchMedia("(pointer: fine)").matches) document.querySelector("#chat .field")?.focus();
  else if (!url) document.querySelector("#channels [tabindex='0']")?.focus();
  showTitle();
}

function showTitle() {
  const name = nameOfChannel(channelOf(channelInAddress())), unread = unreadCount();
  document.title = `${unread ? `(${unread}) ` : ""}${name ? `${name.slice(0, 60)} · ` : ""}Perch`;
}

/** Takes events that concern the whole page. */
function hearEvents(events) {
  for (const event of events) {
    if (event.type === "connection.changed") noteConnection(event.connection);
    if (event.type === "upload.progress") shared.percents.set(event.progress.request_id,
      event.progress.percent);
  }
  if (events.some(({ type }) => type === "upload.progress")) redrawAll();
}

let linkWords = "";

function noteConnection({ state, link, error }) {
  const isLost = state === "offline" || (link && link !== "online" && link !== "unknown");
  if (state === "online" || isLost) {
    shared.isLinkLost = Boolean(isLost);
    linkWords = isLost ? LINK_WORDS[link ?? error?.code] ?? "The chat server cannot be reached." : "";
  }
  showBanners();
  redrawAll();
}

function showBanners() {
  const waiting = waitingCount();
  const kept = waiting ? `Kept in this page, to be sent: ${waiting}.` : "What you write stays in this page.";
  const words = feed.isOpen
    ? linkWords && `${linkWords} You read what is cached; what you write is sent later.`
    : `Perch does not answer. ${kept}`;
  const banner = byID("banner");
  if (banner.textContent !== words) banner.textContent = words;
  banner.hidden = !words;
  banner.classList.toggle("severe", !feed.isOpen);
}

function closeByKey(event) {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (document.body.classList.contains("threading")) closeThread();
  else closeDrawer();
}

if (session.user) begin();
else showSignIn(begin);
