import { el, button, notify } from "./dom.js";
import { ask, channelPath } from "./transport.js";
import { GAP_REASONS, wordsFor } from "./words.js";

// A gap between messages: why they are missing, about how many, and how to have them fetched.

/** Whether the message is newer than the gap. Positions are compared as plain text. */
export const isBehind = (row, gap) => (row.position ?? "~") >= gap.to;

/** Builds the marker of a gap. `missing` is how many were missing when the filling began. */
export function buildGap({ gap, channel, missing }) {
  const count = gap.estimated_missing;
  const words = [count ? `About ${count} messages` : "Messages", "are not in the cache:",
    GAP_REASONS[gap.reason] ?? gap.reason];
  return el("section", { class: "gap", "aria-label": "Gap" },
    el("p", {}, `${words.join(" ")}.`),
    gap.state === "filling" ? fillingOf(gap, channel, missing)
      : button("Fetch them", () => ordered("POST", channel, gap), { "data-act": "fill" }));
}

function fillingOf(gap, channel, missing) {
  const done = missing && gap.estimated_missing != null ? 1 - gap.estimated_missing / missing : undefined;
  return el("p", { class: "filling" },
    el("progress", { "aria-label": "Fetching messages", max: "1", value: done === undefined ? null
      : String(done) }),
    " Fetching… ", button("Stop", () => ordered("DELETE", channel, gap),
      { class: "quiet", "data-act": "fill" }));
}

async function ordered(method, channel, gap) {
  try {
    await ask(method, channelPath(channel, `/gaps/${gap.id}/fill`));
  } catch (error) {
    notify(wordsFor(error.problem), true);
  }
}
