// The orders of a channel list, as the service has them: every order ends with the channel's url.

const lastOf = (channel) => Math.max(channel.last_message?.created_at ?? 0, 0);
const byText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const nameKey = ({ name }) => (name ? `0${name.toLowerCase()}` : "1");

const ORDERS = {
  latest_last_message: (a, b) => lastOf(b) - lastOf(a) || (lastOf(a) ? 0 : b.created_at - a.created_at),
  chronological: (a, b) => b.created_at - a.created_at,
  channel_name_alphabetical: (a, b) => byText(nameKey(a), nameKey(b)),
};

/** The channels in that order. */
export const inOrder = (channels, order) =>
  [...channels].sort((a, b) => ORDERS[order](a, b) || byText(a.channel_url, b.channel_url));
