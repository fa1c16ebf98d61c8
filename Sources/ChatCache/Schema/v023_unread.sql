DROP INDEX membership_unread;
-- answers: a user's unread totals, without the crowded channels that the user follows
CREATE INDEX membership_unread ON membership (user, unread, mentions, sort_at) WHERE unread > 0 OR mentions > 0;
