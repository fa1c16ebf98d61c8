// How times, sizes and names are written.

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined,
  { weekday: "long", day: "numeric", month: "long", year: "numeric" });
const SHORT_DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

// How far the service's clock is ahead of the browser's (ms), by the last answer's Date.
let clockOffset = 0;

/** Notes the service's clock. */
export function noteServerTime(date) {
  const time = Date.parse(date ?? "");
  // A Date has whole seconds, so smaller differences mean nothing.
  if (time && Math.abs(time - Date.now() - clockOffset) > 2000) clockOffset = time - Date.now();
}

/** Now, by the service's clock. */
export const serverNow = () => Date.now() + clockOffset;

/** The time of day. */
export const clockOf = (time) => CLOCK.format(time);

/** The full date and time. */
export const exactOf = (time) => EXACT.format(time);

const dateOf = (time) => new Date(time).toDateString();

/** A number that is the same for all times of one day here. */
export const dayNumberOf = (time) =>
  Math.floor((time - new Date(time).getTimezoneOffset() * 60_000) / 86_400_000);

/** The day, as a heading between messages. */
export function dayOf(time) {
  const now = serverNow();
  if (dateOf(time) === dateOf(now)) return "Today";
  return dateOf(time) === dateOf(now - 86_400_000) ? "Yesterday" : DAY.format(time);
}

/** The time of day if it is today, else the date. */
export const shortTimeOf = (time) => (dateOf(time) === dateOf(serverNow()) ? CLOCK : SHORT_DAY).format(time);

/** A number of bytes. */
export function sizeOf(bytes) {
  if (!(bytes >= 0)) return "";
  if (bytes < 1000) return `${bytes} B`;
  const [unit, name] = bytes < 1e6 ? [1e3, "kB"] : bytes < 1e9 ? [1e6, "MB"] : [1e9, "GB"];
  const count = bytes / unit;
  return `${count < 10 ? count.toFixed(1) : Math.round(count)} ${name}`;
}

/** How long something takes or is away. */
export function durationOf(milliseconds) {
  const seconds = Math.max(0, milliseconds / 1000);
  if (seconds < 1) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

/** The name that people see. */
export const nameOfPerson = (person) => person?.nickname || person?.user_id || "Somebody";

/** The name of a channel. */
export const nameOfChannel = (channel) => channel?.name || channel?.channel_url || "";

/** "Ann", "Ann and Bob", "Ann, Bob and 3 more". */
export function listNames(names) {
  if (names.length < 3) return names.join(" and ");
  return `${names[0]}, ${names[1]} and ${names.length - 2} more`;
}

/** The first letter of a name, a whole grapheme, so that no emoji is cut. */
export function initialsOf(name) {
  const signs = typeof Intl.Segmenter === "function"
    ? [...new Intl.Segmenter().segment(name.slice(0, 80))].map(({ segment }) => segment)
    : [...name.slice(0, 8)];
  return signs.find((sign) => /[^\p{C}\s]/u.test(sign))?.slice(0, 24).toUpperCase() ?? "?";
}

/** One of eight colours, always the same for a name. */
export function colourOf(name) {
  let sum = 0;
  for (let at = 0; at < name.length; at++) sum = (sum * 31 + name.charCodeAt(at)) >>> 0;
  return `tone-${sum % 8}`;
}
