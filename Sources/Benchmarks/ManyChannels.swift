/// The rows of many channels, written straight into the tables.
enum ManyChannels {
  /// Channels of a user; three messages in each crowded one, and ten unread ones among the others.
  static func sql(_ count: Int, crowded: Int, of user: String) -> String {
    """
    BEGIN;
    INSERT INTO user (user_id, phase, is_synced, seen_at) VALUES ('\(user)', 'connected', 1, 0);
    \(channels(count, named: user, members: 2, crowded: crowded))
    INSERT INTO membership (user, channel, channel_url, name_key, created_at, sort_at, state, role, unread)
    SELECT (SELECT id FROM user WHERE user_id = '\(user)'), id, channel_url, name_key, 1,
      iif(is_crowded, -4000000000000000000, last_message_at), 'joined', 'none',
      is_crowded = 0 AND name_key IN ('n50', 'n51', 'n52', 'n53', 'n54', 'n55', 'n56', 'n57', 'n58', 'n59')
    FROM channel
    WHERE channel_url LIKE '\(user)-%';
    INSERT INTO message (
      channel, created_at, message_id, version, updated_at, type, flags, sender, custom_type, body)
    SELECT c.id, c.last_message_at - 3 + n.column1, n.column1, 0, 0, 0, 0, 'somebody', '',
      CAST('"message_id":"' || n.column1 || '"' AS BLOB)
    FROM channel AS c
    CROSS JOIN (VALUES (1), (2), (3)) AS n
    WHERE c.is_crowded = 1 AND c.channel_url LIKE '\(user)-%';
    COMMIT;
    """
  }

  /// Users who are connected, and channels without messages. Each user is in a hundred of them, and all
  /// channels have as many members.
  static func sql(_ count: Int, ofUsers users: Int) -> String {
    """
    BEGIN;
    WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < \(users - 1))
    INSERT INTO user (user_id, phase, is_synced, seen_at)
    SELECT 'user-' || i, 'connected', 1, unixepoch() * 1000 FROM n;
    \(channels(count, named: "shared_group_channel", members: 10, crowded: 0))
    WITH RECURSIVE k (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM k WHERE i < 99)
    INSERT INTO membership (user, channel, channel_url, name_key, created_at, sort_at, state, role, unread)
    SELECT u.id, c.id, c.channel_url, c.name_key, 1, c.last_message_at, 'joined', 'none', 0
    FROM user AS u
    CROSS JOIN k
    JOIN channel AS c
      ON c.channel_url =
        'shared_group_channel-' || ((substr(u.user_id, 6) * 10 + k.i * (\(count) / 100)) % \(count))
    WHERE u.user_id LIKE 'user-%';
    COMMIT;
    """
  }

  /// Channels `name`-0, `name`-1 and so on, of which the first ones are crowded.
  private static func channels(_ count: Int, named name: String, members: Int, crowded: Int) -> String {
    """
    WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < \(count - 1))
    INSERT INTO channel (
      channel_url, name, name_key, custom_type, created_at, is_distinct, is_public, is_super, is_frozen,
      member_count, joined_member_count, last_message_at, last_message_id, body, read_receipts, is_crowded)
    SELECT
      '\(name)-' || i, 'n' || i, 'n' || i, '', 1, 0, 0, 0, 0, \(members), \(members),
      \(FilledCache.firstAt) + i * 7919 % \(count), 3,
      CAST('"channel_url":"\(name)-' || i || '","name":"n' || i || '"' AS BLOB), CAST('{}' AS BLOB),
      i < \(crowded)
    FROM n;
    """
  }
}
