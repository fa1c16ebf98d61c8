import { el, svg, fill } from "./dom.js";
import { ask, channelPath } from "./transport.js";
import { openTalk } from "./chat.js";
import { GAP_REASONS } from "./words.js";
import { exactOf } from "./format.js";

// The line of the open channel, from its beginning to now: what the cache has, what is missing and why, and
// the tail.

const WIDTH = 600, SMALLEST = 8;

/** The time in a position; 0 before all times. */
const timeOf = (position) => parseInt(position.slice(0, 16), 16);

/** Reads the gaps of the open channel and draws its line. */
export async function drawLine(panel) {
  const talk = openTalk();
  if (!talk) return fill(panel, el("p", { class: "empty" }, "Open a channel to see its line."));
  let gaps;
  try {
    ({ items: gaps } = await ask("GET", channelPath(talk.channel, "/gaps")));
  } catch (error) {
    return fill(panel, el("p", { class: "empty" }, error.message));
  }
  const { channel, tail } = talk.state;
  const begin = channel?.created_at ?? 0, end = Math.max(channel?.last_message?.created_at ?? 0, begin + 1);
  const at = (time) => Math.round(WIDTH * Math.min(1, Math.max(0, (time - begin) / (end - begin))));
  const words = gaps.length ? `${gaps.length} gap${gaps.length > 1 ? "s" : ""}`
    : "No gap: everything is covered";
  fill(panel, el("p", { class: "hint" }, "From the channel's beginning to its newest message."),
    svg("svg", { viewBox: `0 0 ${WIDTH + 20} 56`, class: "line-drawing", role: "img", "aria-label": words },
      svg("rect", { class: "covered", x: 0, y: 16, width: WIDTH, height: 24, rx: 4 }),
      gaps.map((gap) => {
        const from = at(timeOf(gap.from)), width = Math.max(SMALLEST, at(timeOf(gap.to)) - from);
        return svg("rect", { class: `missing ${gap.reason}`, x: Math.min(from, WIDTH - width), y: 16, width,
          height: 24, rx: 4 });
      }),
      windowOf(talk, at),
      svg("circle", { class: `tail ${tail?.state ?? "unknown"}`, cx: WIDTH + 8, cy: 28, r: 8 })),
    legendOf(tail, talk), gapList(gaps));
}

/** What the open view has loaded. */
function windowOf(talk, at) {
  const loaded = talk.rows.filter((row) => row.position);
  if (!loaded.length) return null;
  const from = at(loaded[0].created_at), to = at(loaded.at(-1).created_at);
  return svg("rect", { class: "loaded", x: from, y: 10, width: Math.max(2, to - from), height: 3 });
}

function legendOf(tail, talk) {
  const entry = (kind, words) => el("li", {}, el("span", { class: `swatch ${kind}` }), words);
  return el("ul", { class: "legend" }, entry("covered", "covered"), entry("missing", "missing"),
    entry("loaded", `in this view (${talk.rows.length})`),
      entry(`tail ${tail?.state ?? ""}`, `newest end: ${tail?.state ?? "not in view"}`));
}

function gapList(gaps) {
  const day = (position) => (timeOf(position) ? exactOf(timeOf(position)) : "the beginning");
  return el("ul", { class: "rows" }, gaps.map((gap) => el("li", {},
    el("b", {}, `Gap ${gap.id}`), ` ${GAP_REASONS[gap.reason] ?? gap.reason}, ${gap.state}`,
    gap.estimated_missing ? `, about ${gap.estimated_missing} messages` : "",
    el("small", { class: "facts-line" }, `${day(gap.from)} to ${day(gap.to)}`))));
}
