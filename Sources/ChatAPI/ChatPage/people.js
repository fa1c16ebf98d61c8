import { ask, channelPath } from "./transport.js";
import { nameOfPerson } from "./format.js";

// Names of the people of a channel: from its member list, and from the messages that were seen.

const MOST_MEMBERS = 100;
const known = new Map();

/** Notes how somebody is called. */
export function notePerson(person) {
  if (person?.user_id && (person.nickname || !known.has(person.user_id))) known.set(person.user_id, person);
}

/** What is known of somebody. */
export const personOf = (person) => (person?.nickname ? person : known.get(person?.user_id) ?? person);

/** The name of a user. */
export const nameOfUser = (id) => nameOfPerson(personOf({ user_id: id }));

/** The first members of a channel; none if the request fails. */
export async function membersOf(channel) {
  try {
    const { items } = await ask("GET", channelPath(channel, `/members?limit=${MOST_MEMBERS}`));
    items.forEach(notePerson);
    return items;
  } catch {
    return [];
  }
}

/** Who has read a message of this time, without the user. */
export const readersOf = (channel, time, self) => Object.entries(channel?.read_receipts ?? {})
  .filter(([id, readAt]) => id !== self && readAt >= time).map(([id]) => id);
