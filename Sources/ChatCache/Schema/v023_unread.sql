DROP INDEX membership_unread;
-- answers: a user's unread totals, without the crowded channels that the user follows
CREATE INDEX membership_unread ON membership (user, unread, mentions, sort_at) WHERE unread > 0 OR mentions > 0;

-- The counts of a crowded channel's members: what their rows count, and the messages of unread_message. Like every
-- count, at most 1000000000.
DROP VIEW crowded_count;
CREATE VIEW crowded_count AS
SELECT m.user, m.channel,
  min(1000000000, max(0, m.unread) + (
    SELECT count(*) FROM unread_message AS x WHERE x.user = m.user AND x.channel = m.channel
  )) AS unread,
  min(1000000000, max(0, m.mentions) + (
    SELECT count(*) FROM unread_message AS x WHERE x.user = m.user AND x.channel = m.channel AND x.is_mention
  )) AS mentions
FROM membership AS m;
