import ChatModel
import SQLite

// Lists a user's outbox: all unsent rows, in every channel, also in channels that the user has left.

/// One row of a user's outbox.
package struct UnsentRow: Sendable {
  /// The row.
  package let row: OutboxRow
  /// The channel that the row is sent to.
  package let channel: ChannelURL
  /// The request that must end before this one is sent.
  package let blockedBy: RequestID?
  /// The request id of the unsent message that the row changes.
  package let follows: RequestID?
  /// The client's parameters of a change: a JSON object.
  package let params: [UInt8]
  /// The unsent message as the API shows it; nil for a change.
  package let message: [UInt8]?
}

/// Selects rows of an outbox.
package struct UnsentFilter: Sendable {
  /// Only rows of this channel.
  package var channel: ChannelURL?
  /// Only rows with this status.
  package var status: OutboxRow.Status?

  /// A filter that selects all rows.
  package init() {}
}

/// The numbers of one user's unsent rows, by state.
package struct UserOutbox: Sendable, Equatable {
  /// The user's id.
  package let user: UserID
  /// The number of rows that are neither failed nor canceled.
  package let pending: Int64
  /// The number of failed messages.
  package let failed: Int64
  /// The number of canceled messages.
  package let canceled: Int64
  /// When the oldest row was accepted, ms.
  package let oldestAcceptedAt: Int64?
}

extension CacheReader {
  /// The user's unsent rows with ids above `after`, in the order of acceptance.
  package func unsentRows(
    of user: UserKey, _ filter: UnsentFilter, after: Int64, limit: Int
  ) throws -> [UnsentRow] {
    let found = try db.all(
      """
      SELECT id, channel_url, params
      FROM outbox INDEXED BY outbox_by_user
      WHERE user = ?1
        AND id > ?2
        AND (?3 IS NULL OR channel_url = ?3)
        AND (
          ?4 IS NULL
          OR ?4 = CASE
            WHEN is_cancel_wanted = 1 OR state = 'canceled' THEN 'canceled'
            WHEN state = 'failed' THEN 'failed'
            ELSE 'pending'
          END
        )
      ORDER BY id
      LIMIT ?5
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, after)
      $0.bind(3, filter.channel?.text)
      $0.bind(4, filter.status?.rawValue)
      $0.bind(5, limit)
    } _: {
      FoundRow(id: $0.int64(0), channel: ChannelURL($0.string(1)), params: Array($0.bytes(2)))
    }
    return try listed(found, of: user)
  }

  /// One unsent row of the user, by its request id.
  package func unsentRow(_ request: RequestID, of user: UserKey) throws -> UnsentRow? {
    let found = try db.first(
      """
      SELECT o.id, o.channel_url, o.params
      FROM request AS r
      JOIN outbox AS o ON o.id = r.row
      WHERE r.user = ?1 AND r.request_id = ?2
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, request.text)
    } _: {
      FoundRow(id: $0.int64(0), channel: ChannelURL($0.string(1)), params: Array($0.bytes(2)))
    }
    return try found.flatMap { try listed([$0], of: user).first }
  }

  private struct FoundRow {
    let id: Int64
    let channel: ChannelURL
    let params: [UInt8]
  }

  /// Adds to each row the request that holds it.
  private func listed(_ found: [FoundRow], of user: UserKey) throws -> [UnsentRow] {
    try found.compactMap { found in
      let laneKey = OutboxLaneKey(user: user, channel: found.channel)
      let lane = try laneStep(laneKey, row: found.id)
      guard let row = lane.row(found.id) else { return nil }
      return UnsentRow(
        row: row, channel: found.channel, blockedBy: lane.blocker(of: row.id)?.requestID,
        follows: row.follows.flatMap { lane.row($0)?.requestID }, params: found.params,
        message: row.kind.isMessage ? try unsentMessage(row.requestID.text, in: laneKey)?.object : nil)
    }
  }

  /// The lane of the user's unsent row with that request id.
  package func unsentLane(of request: RequestID, of user: UserKey) throws -> OutboxLaneKey? {
    try db.first(
      """
      SELECT o.channel_url
      FROM request AS r
      JOIN outbox AS o ON o.id = r.row
      WHERE r.user = ?1 AND r.request_id = ?2
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, request.text)
    } _: {
      OutboxLaneKey(user: user, channel: ChannelURL($0.string(0)))
    }
  }

  /// The numbers of all users' unsent rows. `oldest`: when the pending row that expires first was accepted.
  /// `uploading`: the number of files being uploaded.
  package func unsentOfAllUsers() throws -> (
    pending: Int64, failed: Int64, canceled: Int64, oldest: Int64?, uploading: Int64
  ) {
    let counts = try db.first("SELECT sum(pending), sum(failed), sum(canceled) FROM unsent_count") {
      ($0.int64OrNil(0) ?? 0, $0.int64OrNil(1) ?? 0, $0.int64OrNil(2) ?? 0)
    }
    let oldest = try db.first(
      """
      SELECT accepted_at
      FROM outbox INDEXED BY outbox_by_expiry
      WHERE state NOT IN ('failed', 'canceled')
      ORDER BY expires_at
      LIMIT 1
      """
    ) { $0.int64(0) }
    let uploading = try db.first(
      "SELECT count(*) FROM outbox INDEXED BY outbox_uploading WHERE upload = 'running'"
    ) { $0.int64(0) }
    return (counts?.0 ?? 0, counts?.1 ?? 0, counts?.2 ?? 0, oldest, uploading ?? 0)
  }

  /// Users with unsent rows whose ids come after `after`, in order. `status`: only users whose count of that
  /// status is not 0.
  package func outboxes(
    status: OutboxRow.Status?, after: String, limit: Int
  ) throws -> [UserOutbox] {
    try db.all(
      """
      SELECT
        u.user_id, n.pending, n.failed, n.canceled,
        (SELECT min(o.accepted_at) FROM outbox AS o INDEXED BY outbox_by_user WHERE o.user = u.id)
      FROM unsent_count AS n
      JOIN user AS u ON u.id = n.user
      WHERE u.user_id > ?1
        AND CASE ?2
          WHEN 'pending' THEN n.pending
          WHEN 'failed' THEN n.failed
          WHEN 'canceled' THEN n.canceled
          ELSE n.pending + n.failed + n.canceled
        END > 0
      ORDER BY u.user_id
      LIMIT ?3
      """
    ) {
      $0.bind(1, after)
      $0.bind(2, status?.rawValue)
      $0.bind(3, limit)
    } _: {
      UserOutbox(
        user: UserID($0.string(0)), pending: $0.int64(1), failed: $0.int64(2), canceled: $0.int64(3),
        oldestAcceptedAt: $0.int64OrNil(4))
    }
  }
}
