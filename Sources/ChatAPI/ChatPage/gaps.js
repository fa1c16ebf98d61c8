import { el, button, notify } from "./dom.js";
import { ask, channelPath } from "./transport.js";
import { GAP_REASONS, wordsFor } from "./words.js";

// A gap between messages: why they are missing, about how many, and how to have them fetched.

/** Whether the message is newer than the gap. Positions are compared as plain text. */
export const isBehind = (row, gap) => (row.position ?? "~") >= gap.to;

/** Builds the marker of a gap. `refresh` writes into it what changes while it is filled. */
export function buildGap({ gap, channel, refresh }) {
  const marker = el("section", { class: "gap", "aria-label": "Gap" }, el("p"),
    gap.state === "filling" ? fillingOf(gap, channel)
      : button("Fetch them", () => ordered("POST", channel, gap), { "data-act": "fill" }));
  refresh(marker);
  return marker;
}

/**
 * Writes into the marker how much is missing, and how much of `missing`, the number when the filling began,
 * is fetched. The element stays, so that a press of its button is not lost.
 */
export function showGap(element, gap, missing) {
  const count = gap.estimated_missing, bar = element.querySelector("progress");
  const reason = GAP_REASONS[gap.reason] ?? gap.reason, line = element.querySelector("p");
  const words = `${count ? `About ${count} messages` : "Messages"} are not in the cache: ${reason}.`;
  if (line.textContent !== words) line.textContent = words;
  if (bar && missing && count !== null) bar.value = 1 - count / missing;
}

const fillingOf = (gap, channel) => el("p", { class: "filling" },
  el("progress", { "aria-label": "Fetching messages", max: "1" }), " Fetching… ",
  button("Stop", () => ordered("DELETE", channel, gap), { class: "quiet", "data-act": "fill" }));

async function ordered(method, channel, gap) {
  try {
    await ask(method, channelPath(channel, `/gaps/${gap.id}/fill`));
  } catch (error) {
    notify(wordsFor(error.problem), true);
  }
}
