import ChatCache
import ChatModel
import Glibc
import Platform
import SQLite

/// A cache with a large and a small channel, and with a user of many channels and one of few. Rows are
/// written straight into the tables, because storing five million messages page by page takes too long.
final class DeepCache {
  static let deep = 5_000_000
  static let shallow = 5000
  static let manyChannels = 100_000
  static let fewChannels = 100

  let filled: FilledCache
  private let reopened: Cache

  init(deep: Int = DeepCache.deep) throws {
    filled = try FilledCache(channels: 2, disk: true)
    filled.cache.close()
    let connection = try Connection(path: filled.directory + "/perch.db")
    try connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -64000")
    for (number, count) in [(0, deep), (1, DeepCache.shallow)] {
      try connection.execute(DeepCache.messages(count, in: FilledCache.url(number).text))
    }
    try connection.execute(DeepCache.channels(DeepCache.manyChannels, of: "many"))
    try connection.execute(DeepCache.channels(DeepCache.fewChannels, of: "few"))
    reopened = try Cache(Cache.Configuration(directory: filled.directory))
  }

  /// The cache over the filled tables.
  var cache: Cache { reopened }

  deinit { reopened.close() }

  private static func messages(_ count: Int, in url: String) -> String {
    let last = FilledCache.position(count - 1)
    let channel = "(SELECT id FROM channel WHERE channel_url = '\(url)')"
    return """
      BEGIN;
      WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < \(count - 1))
      INSERT INTO message (
        channel, created_at, message_id, version, updated_at, type, flags, sender, custom_type, body)
      SELECT
        \(channel), \(FilledCache.firstAt) + i * 10, i + 1, 0, 0, 0, 0, 'user-' || (i % 37), '',
        CAST('"message_id":"' || (i + 1) || '","message":"' || printf('%.200c', 'x') || '"' AS BLOB)
      FROM n;
      DELETE FROM segment WHERE channel = \(channel);
      INSERT INTO segment (channel, lo_at, lo_id, hi_at, hi_id, kind)
      VALUES (\(channel), 0, -9223372036854775808, \(last.createdAt), \(last.messageID), 0);
      INSERT INTO segment (channel, lo_at, lo_id, hi_at, hi_id, kind, id, generation)
      VALUES (
        \(channel), \(last.createdAt), \(last.messageID + 1), 9223372036854775807, 9223372036854775807, 2, 1,
        1);
      COMMIT;
      """
  }

  private static func channels(_ count: Int, of user: String) -> String {
    """
    BEGIN;
    INSERT INTO user (user_id, phase, is_synced, seen_at) VALUES ('\(user)', 'connected', 1, 0);
    WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < \(count - 1))
    INSERT INTO channel (
      channel_url, name, name_key, custom_type, created_at, is_distinct, is_public, is_super, is_frozen,
      member_count, joined_member_count, last_message_at, body, read_receipts)
    SELECT
      '\(user)-' || i, 'n' || i, 'n' || i, '', 1, 0, 0, 0, 0, 2, 2, \(FilledCache.firstAt) + i,
      CAST('"channel_url":"\(user)-' || i || '","name":"n' || i || '"' AS BLOB), CAST('{}' AS BLOB)
    FROM n;
    INSERT INTO membership (user, channel, channel_url, name_key, created_at, sort_at, state, role)
    SELECT (SELECT id FROM user WHERE user_id = '\(user)'), id, channel_url, name_key, 1, last_message_at,
      'joined', 'none'
    FROM channel
    WHERE channel_url LIKE '\(user)-%';
    COMMIT;
    """
  }
}
