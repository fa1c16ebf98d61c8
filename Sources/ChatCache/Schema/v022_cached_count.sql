-- The messages of crowded channels are not in the numbers of their members, who are too many.
DROP TRIGGER cached_count_channel_update;
DROP TRIGGER cached_count_channel_delete;
DROP TRIGGER cached_count_membership_insert;
DROP TRIGGER cached_count_membership_delete;

CREATE TRIGGER cached_count_channel_update AFTER UPDATE OF cached_messages ON channel
WHEN old.cached_messages <> new.cached_messages
BEGIN
  UPDATE cached_count SET messages = messages + new.cached_messages - old.cached_messages WHERE user = 0;
  UPDATE cached_count
  SET messages = messages + new.cached_messages - old.cached_messages
  WHERE new.is_crowded = 0 AND user IN (SELECT user FROM membership WHERE channel = new.id);
END;

CREATE TRIGGER cached_count_channel_crowded AFTER UPDATE OF is_crowded ON channel
WHEN old.is_crowded < new.is_crowded
BEGIN
  UPDATE cached_count
  SET messages = messages - new.cached_messages
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
  WHERE old.is_crowded = 0 AND user IN (SELECT user FROM membership WHERE channel = old.id);
END;

CREATE TRIGGER cached_count_membership_insert AFTER INSERT ON membership
BEGIN
  INSERT INTO cached_count (user, channels, messages)
  VALUES (
    new.user, 1, coalesce((SELECT cached_messages FROM channel WHERE id = new.channel AND is_crowded = 0), 0))
  ON CONFLICT (user) DO UPDATE
  SET channels = channels + 1, messages = messages + excluded.messages;
END;

CREATE TRIGGER cached_count_membership_delete AFTER DELETE ON membership
BEGIN
  UPDATE cached_count
  SET
    channels = channels - 1,
    messages = messages
      - coalesce((SELECT cached_messages FROM channel WHERE id = old.channel AND is_crowded = 0), 0)
  WHERE user = old.user;
END;
