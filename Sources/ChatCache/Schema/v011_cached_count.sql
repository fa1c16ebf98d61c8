CREATE TABLE cached_count (
  -- The numbers of a user's channels and of the stored messages in them; user 0: of all. The triggers below keep them,
  -- so that nothing counts all channels. No row: none.
  user INTEGER PRIMARY KEY,
  channels INTEGER NOT NULL,
  messages INTEGER NOT NULL
) STRICT;

INSERT INTO cached_count (user, channels, messages)
SELECT 0, count(*), coalesce(sum(cached_messages), 0)
FROM channel
UNION ALL
SELECT m.user, count(*), sum(c.cached_messages)
FROM membership AS m
CROSS JOIN channel AS c ON c.id = m.channel
GROUP BY m.user;

CREATE TRIGGER cached_count_channel_insert AFTER INSERT ON channel
BEGIN
  INSERT INTO cached_count (user, channels, messages)
  VALUES (0, 1, new.cached_messages)
  ON CONFLICT (user) DO UPDATE
  SET channels = channels + 1, messages = messages + excluded.messages;
END;

CREATE TRIGGER cached_count_channel_update AFTER UPDATE OF cached_messages ON channel
WHEN old.cached_messages <> new.cached_messages
BEGIN
  UPDATE cached_count SET messages = messages + new.cached_messages - old.cached_messages WHERE user = 0;
  UPDATE cached_count
  SET messages = messages + new.cached_messages - old.cached_messages
  WHERE user IN (SELECT user FROM membership WHERE channel = new.id);
END;

-- BEFORE: the triggers of the memberships that are deleted with the channel find no channel any more.
CREATE TRIGGER cached_count_channel_delete BEFORE DELETE ON channel
BEGIN
  UPDATE cached_count
  SET channels = channels - 1, messages = messages - old.cached_messages
  WHERE user = 0;
  UPDATE cached_count
  SET messages = messages - old.cached_messages
  WHERE user IN (SELECT user FROM membership WHERE channel = old.id);
END;

CREATE TRIGGER cached_count_membership_insert AFTER INSERT ON membership
BEGIN
  INSERT INTO cached_count (user, channels, messages)
  VALUES (new.user, 1, coalesce((SELECT cached_messages FROM channel WHERE id = new.channel), 0))
  ON CONFLICT (user) DO UPDATE
  SET channels = channels + 1, messages = messages + excluded.messages;
END;

CREATE TRIGGER cached_count_membership_delete AFTER DELETE ON membership
BEGIN
  UPDATE cached_count
  SET
    channels = channels - 1,
    messages = messages - coalesce((SELECT cached_messages FROM channel WHERE id = old.channel), 0)
  WHERE user = old.user;
END;

CREATE TRIGGER cached_count_user_delete AFTER DELETE ON user
BEGIN
  DELETE FROM cached_count WHERE user = old.id;
END;

-- answers: the first cached channels in an order (B56)
CREATE INDEX channel_by_access ON channel (accessed_at, channel_url);
CREATE INDEX channel_by_messages ON channel (cached_messages, channel_url);
CREATE INDEX channel_by_bytes ON channel (cached_bytes, channel_url);
CREATE INDEX channel_by_last_message ON channel (last_message_at, channel_url);
CREATE INDEX channel_by_creation ON channel (created_at, channel_url);
CREATE INDEX channel_by_custom_type ON channel (custom_type, channel_url);
