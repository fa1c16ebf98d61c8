// Words for people: what a refusal means and what somebody can do about it.

const WORDS_BY_CODE = {
  unreachable: "Perch does not answer.",
  channel_not_found: "This channel is not yours, or does not exist any more.",
  collection_not_found: "This view has ended. It is opened again.",
  message_not_found: "This message is gone.",
  not_joined: "You are invited, but have not joined. Only members read and write here.",
  insufficient_scope: "Your token does not allow this.",
  user_unknown: "The chat server does not know you.",
  not_resendable: "This message cannot be sent again. Perhaps it was sent already.",
  file_missing: "The file is gone. Remove the message and choose the file again.",
  unsent: "Wait until the message that you answer is sent.",
  under_way: "It is being sent at this moment.",
  unsent_messages: "Some messages are not sent yet.",
  idempotency_mismatch: "This was sent before with other words.",
  upstream_rejected: "The chat server refused it.",
  outbox_full: "Too many messages wait to be sent. Try again when some are gone.",
  upstream_unreachable: "The chat server cannot be reached. What is cached is shown.",
  not_synced: "Your channels are still being fetched. Try again in a moment.",
  no_demo: "This service is no demo.",
  cursor_expired: "Too much has happened since. The view is read again.",
  expired: "It could not be sent in time.",
  upload_refused: "The chat server did not take the file.",
};

const WORDS_BY_STATUS = {
  400: "Perch does not understand this request.",
  401: "Your token has ended, or is not valid here.",
  403: "You may not do that here.",
  404: "That is gone, or is not yours.",
  409: "That cannot be done now: something else came first.",
  410: "Too much has happened since. The view is read again.",
  412: "Somebody changed it meanwhile.",
  413: "That is too large.",
  422: "The chat server refused it.",
  429: "That was too much at once. It is tried again in a moment.",
  500: "Perch has a fault.",
  503: "Perch is busy or cannot reach the chat server. It is tried again in a moment.",
  507: "Perch has no room for the file.",
};

const WORDS_BY_REASON = {
  muted: "You are muted in this channel.",
  frozen: "This channel is frozen: only operators may write.",
  broadcast: "Only operators may write in this channel.",
  not_sender: "Only the sender may change this message.",
  not_operator: "Only operators may do that.",
  admin_only: "Only an administrator may do that.",
};

/** What a problem means, followed by its own detail. */
export function wordsFor(problem) {
  if (!problem) return "Something went wrong.";
  const known = WORDS_BY_REASON[problem.reason] ?? WORDS_BY_CODE[problem.code]
    ?? WORDS_BY_STATUS[problem.status];
  const fields = (problem.errors ?? []).map(({ field, detail }) => `${field}: ${detail}`);
  return [known ?? "Something went wrong.", problem.detail, ...fields].filter(Boolean).join(" ");
}

/** Why a message failed. */
export function wordsForFailure({ code, message } = {}) {
  const known = WORDS_BY_CODE[code] ?? "The chat server refused it.";
  return [known, message, code && `(${code})`].filter(Boolean).join(" ");
}

/** Why the user cannot write in a channel now, or nothing. */
export function whyNoWriting(channel) {
  if (!channel) return "The channel is being opened.";
  if (channel.my_member_state === "invited") return WORDS_BY_CODE.not_joined;
  if (channel.my_role === "operator") return "";
  if (channel.my_muted) return WORDS_BY_REASON.muted;
  if (channel.is_frozen) return WORDS_BY_REASON.frozen;
  return channel.is_broadcast ? WORDS_BY_REASON.broadcast : "";
}

/** Why messages are missing in a gap. */
export const GAP_REASONS = {
  never_loaded: "never fetched",
  disconnected: "missed while the chat server was away",
  limited: "too many to fetch at once",
  evicted: "removed since",
};
