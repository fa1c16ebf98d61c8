import { el, button, byID, fill } from "./dom.js";

// The page's user. User and token are in this tab's sessionStorage, and nowhere else.

const SESSION_KEY = "perch.session";

/** The user and the token of this tab. `isEnded`: the service refused the token. */
export const session = { user: "", token: "", isEnded: false, ...readSession() };

// Requests that wait for a token, and listeners for a new one.
let waiting = [];
const renewed = [];

/** Calls `listener` when there is a new token. */
export const onNewToken = (listener) => renewed.push(listener);

/** A token that was not refused yet; waits until the user gives one. */
export function currentToken() {
  if (session.token && !session.isEnded) return Promise.resolve(session.token);
  return new Promise((resolve) => waiting.push(resolve));
}

/** Notes that the service refused a token. An old one, refused late, changes nothing. */
export function tokenWasRefused(token) {
  if (token !== session.token || session.isEnded) return;
  session.isEnded = true;
  askForToken();
}

/** Forgets the user and begins again. What waits to be sent stays stored for that user. */
export function signOut() {
  sessionStorage.removeItem(SESSION_KEY);
  location.hash = "";
  location.reload();
}

/** The users to choose from: the demo's, or none if the service is no demo. */
export async function demoUsers() {
  const answer = await fetch("/demo").catch(() => null);
  return answer?.ok ? (await answer.json()).users : [];
}

/** Shows the sign-in form, and calls `begin` when a user is chosen. */
export async function showSignIn(begin) {
  byID("sign-in").hidden = false;
  const form = tokenForm("Use this token", (user, token) => enter(user, token, begin));
  fill(byID("sign-in-token"), form);
  const users = await demoUsers();
  byID("sign-in-users").hidden = !users.length;
  fill(byID("sign-in-list"), users.map(({ user_id: user, token }) => el("li", {},
    button(user, () => enter(user, token, begin), { class: "person" }))));
}

function enter(user, token, begin) {
  keepSession(user, token);
  byID("sign-in").hidden = true;
  begin();
}

/** Signs the tab in as that user, until it is closed. */
export function keepSession(user, token) {
  Object.assign(session, { user, token, isEnded: false });
  sessionStorage.setItem(SESSION_KEY, JSON.stringify({ user, token }));
  waiting.splice(0).forEach((resolve) => resolve(token));
  renewed.forEach((listener) => listener());
}

function readSession() {
  try {
    return JSON.parse(sessionStorage.getItem(SESSION_KEY)) ?? {};
  } catch {
    return {};
  }
}

/** The user that a token names, or nothing if it is no token. */
export function userOfToken(token) {
  try {
    const { sub } = JSON.parse(atob(token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/")));
    return typeof sub === "string" ? sub : undefined;
  } catch {
    return undefined;
  }
}

function tokenForm(label, use, wanted = "") {
  const id = wanted ? "new-token" : "first-token";
  const field = el("input", { id, autocomplete: "off", spellcheck: "false", required: true,
    type: "password" });
  const wrong = el("p", { class: "wrong", role: "alert" });
  const submit = (event) => {
    event.preventDefault();
    const token = field.value.trim(), user = userOfToken(token);
    if (!user) wrong.textContent = "This is no token. `perch token --data DIR --user U` prints one.";
    else if (wanted && user !== wanted) wrong.textContent = `This token is of ${user}, not of ${wanted}.`;
    else use(user, token);
  };
  const words = wanted ? `A new token of ${wanted}` : "A token, as perch token prints it";
  return el("form", { onsubmit: submit }, el("label", { for: id }, words), field, wrong,
    el("button", { class: "main" }, label));
}

/** Asks for another token of the same user. The page behind it stays as it is. */
async function askForToken() {
  const dialog = el("dialog", { "aria-labelledby": "token-title", id: "token-dialog" });
  const use = (user, token) => {
    keepSession(user, token);
    dialog.remove();
  };
  const again = el("div", { class: "answers" }, button("Be somebody else", signOut, { class: "quiet" }));
  dialog.append(
    el("h2", { id: "token-title" }, "Your token has ended"),
    el("p", {}, "Give a new one to go on. What you have written stays."),
    tokenForm("Go on", use, session.user), again);
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  document.body.append(dialog);
  dialog.showModal();
  const known = (await demoUsers()).find((user) => user.user_id === session.user);
  if (known) again.prepend(button("New token from the demo", () => use(session.user, known.token),
    { class: "main" }));
}
