import ChatModel
import SQLite

/// The numbers of a user's unsent rows, by state.
struct UnsentCounts: Hashable {
  var pending: Int64 = 0
  var failed: Int64 = 0
  var canceled: Int64 = 0

  /// Counts a row once more, or once less.
  mutating func add(_ state: OutboxRow.State, _ times: Int64 = 1) {
    switch state {
    case .failed: failed += times
    case .canceled: canceled += times
    default: pending += times
    }
  }
}

// The table `unsent_count`, so that no request counts the rows of a long outbox.
extension CacheReader {
  /// The numbers of a user's unsent rows, by state.
  func unsentCounts(of user: UserKey) throws -> UnsentCounts {
    try db.first("SELECT pending, failed, canceled FROM unsent_count WHERE user = ?1") {
      $0.bind(1, user.rawValue)
    } _: {
      UnsentCounts(pending: $0.int64(0), failed: $0.int64(1), canceled: $0.int64(2))
    } ?? UnsentCounts()
  }

  /// The number of unsent rows of all users.
  package func unsentRows() throws -> Int64 {
    try db.first("SELECT sum(pending + failed + canceled) FROM unsent_count") { $0.int64(0) } ?? 0
  }

  /// The users whose stored counts differ from their rows.
  func wrongUnsentCounts() throws -> [Finding] {
    try db.all(
      """
      SELECT u.user_id
      FROM user AS u
      LEFT JOIN unsent_count AS n ON n.user = u.id
      LEFT JOIN (
        SELECT
          user,
          sum(state NOT IN ('failed', 'canceled')) AS pending,
          sum(state = 'failed') AS failed,
          sum(state = 'canceled') AS canceled
        FROM outbox
        GROUP BY user
      ) AS o ON o.user = u.id
      WHERE u.is_removed = 0
        AND (coalesce(n.pending, 0), coalesce(n.failed, 0), coalesce(n.canceled, 0))
        <> (coalesce(o.pending, 0), coalesce(o.failed, 0), coalesce(o.canceled, 0))
      """
    ) {
      Finding(.counts, "the stored numbers of unsent rows of user \($0.string(0)) differ from the rows")
    }
  }
}

extension CacheWriter {
  /// Adds to a user's counts.
  func count(_ change: UnsentCounts, of user: UserKey) throws {
    guard change != UnsentCounts() else { return }
    try db.run(
      """
      INSERT INTO unsent_count (user, pending, failed, canceled)
      VALUES (?1, ?2, ?3, ?4)
      ON CONFLICT (user) DO UPDATE
      SET
        pending = pending + excluded.pending,
        failed = failed + excluded.failed,
        canceled = canceled + excluded.canceled
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, change.pending)
      $0.bind(3, change.failed)
      $0.bind(4, change.canceled)
    }
  }

  /// Counts all rows again.
  func recountUnsent() throws {
    try db.execute(
      """
      DELETE FROM unsent_count;
      INSERT INTO unsent_count (user, pending, failed, canceled)
      SELECT
        user,
        sum(state NOT IN ('failed', 'canceled')),
        sum(state = 'failed'),
        sum(state = 'canceled')
      FROM outbox
      GROUP BY user;
      """)
  }
}
