-- 1: so many users here are members that a message changes no membership. The members follow the channel.
ALTER TABLE channel ADD COLUMN is_crowded INTEGER NOT NULL DEFAULT 0;
-- The position up to which the rows of a crowded channel's members count its messages: evicted ones are below it. While
-- folded_user is not NULL, only the rows of users up to that one do.
ALTER TABLE channel ADD COLUMN folded_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE channel ADD COLUMN folded_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE channel ADD COLUMN folded_user INTEGER;

-- answers: the crowded channels by newest message
CREATE INDEX channel_crowded ON channel (last_message_at DESC, channel_url) WHERE is_crowded = 1;
-- answers: the members of a crowded channel whose floor is between two of its last messages
CREATE INDEX membership_by_floor ON membership (channel, floor_at);

-- The stored messages that are unread for a member and newer than those that the upstream counted (B68). In a
-- crowded channel they are added to the member's counts when somebody asks. Its members follow it: sort_at in their
-- rows is -4000000000000000000, and their position in lists is channel.last_message_at; a member who may not see the
-- last message has a position as in other channels.
CREATE VIEW unread_message AS
SELECT m.user, m.channel, x.created_at, x.message_id,
  x.mentions IS NOT NULL
    AND (
      x.mentions = '*' OR u.user_id IN (SELECT value FROM json_each(nullif(x.mentions, '*')))
    ) AS is_mention
FROM membership AS m
CROSS JOIN user AS u ON u.id = m.user
CROSS JOIN message AS x
  ON x.channel = m.channel
  AND x.created_at >= max(m.counted_at, m.last_read_at + 1, m.floor_at)
WHERE (+x.created_at, x.message_id) > (m.counted_at, m.counted_id)
  AND x.sender <> u.user_id
  AND x.flags & 1 = 0
  AND (x.parent_id IS NULL OR x.flags & 2);

-- The counts of a crowded channel's members: what their rows count, and the messages of unread_message.
CREATE VIEW crowded_count AS
SELECT m.user, m.channel,
  m.unread + (
    SELECT count(*) FROM unread_message AS x WHERE x.user = m.user AND x.channel = m.channel
  ) AS unread,
  m.mentions + (
    SELECT count(*) FROM unread_message AS x WHERE x.user = m.user AND x.channel = m.channel AND x.is_mention
  ) AS mentions
FROM membership AS m;
