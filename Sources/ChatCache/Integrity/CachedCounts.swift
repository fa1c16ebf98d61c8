import ChatModel
import SQLite

// The numbers in `cached_count`, compared with the channels and memberships that they count. User 0 stands
// for all users.

extension CacheReader {
  /// The most users whose counts one snapshot checks.
  private static let counted = 100

  /// The users after `reached` whose numbers are wrong, and the last one that was counted; nil: no user is
  /// left.
  func wrongCounts(after reached: Int64) throws -> (users: [Int64], reached: Int64?) {
    let users = try db.all(
      """
      SELECT 0 AS id WHERE ?1 < 0
      UNION
      SELECT id FROM user WHERE id > ?1
      UNION
      SELECT user FROM cached_count WHERE user > ?1
      ORDER BY id
      LIMIT ?2
      """
    ) {
      $0.bind(1, reached)
      $0.bind(2, CacheReader.counted)
    } _: {
      $0.int64(0)
    }
    return (try users.filter { try !isCountRight(of: $0) }, users.last)
  }

  private func isCountRight(of user: Int64) throws -> Bool {
    let noted = try db.first("SELECT channels, messages FROM cached_count WHERE user = ?1") {
      $0.bind(1, user)
    } _: {
      ($0.int64(0), $0.int64(1))
    }
    return try noted ?? (0, 0) == countedAgain(user)
  }

  fileprivate func countedAgain(_ user: Int64) throws -> (channels: Int64, messages: Int64) {
    try db.first(user == 0 ? CacheReader.countOfAll : CacheReader.countOfUser) {
      $0.bind(1, user)
    } _: {
      ($0.int64(0), $0.int64(1))
    } ?? (0, 0)
  }

  private static let countOfAll: StaticString = """
    SELECT count(*), coalesce(sum(cached_messages), 0) FROM channel WHERE ?1 = 0
    """

  private static let countOfUser: StaticString = """
    SELECT count(*), coalesce(sum(iif(c.is_crowded, 0, c.cached_messages)), 0)
    FROM membership AS m
    CROSS JOIN channel AS c ON c.id = m.channel
    WHERE m.user = ?1
    """
}

extension CacheWriter {
  /// Counts the user's channels and messages anew.
  func countAgain(_ user: Int64) throws {
    let counted = try reader.countedAgain(user)
    try db.run("INSERT OR REPLACE INTO cached_count (user, channels, messages) VALUES (?1, ?2, ?3)") {
      $0.bind(1, user)
      $0.bind(2, counted.channels)
      $0.bind(3, counted.messages)
    }
  }
}
