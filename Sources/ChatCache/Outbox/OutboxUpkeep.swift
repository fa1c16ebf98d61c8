import ChatModel
import SQLite

// Changes unsent rows without a request of their user: at the start, by time, and when a channel is lost.
extension CacheWriter {
  /// How far the stored moment may be behind, ms, so that not every step writes it.
  private static let momentStep: Int64 = 1000

  /// The outbox's clock, ms. It never goes back, except by less than a second over a restart (B41).
  package func outboxMoment() throws -> Int64 {
    if let knownOutboxMoment { return knownOutboxMoment }
    let stored = try db.reading.meta(.latestMoment)
    let moment = latestMoment(wall: max(now, stored ?? 0))
    if moment - (stored ?? 0) >= Self.momentStep {
      try db.set(.latestMoment, moment)
    }
    knownOutboxMoment = moment
    return moment
  }

  /// Called after a start: rows in flight may have arrived (B39), and after a restore waiting messages (B65).
  package func recoverOutbox(isRestored: Bool = false) throws {
    let lanes =
      isRestored
      ? try reader.lanes("SELECT DISTINCT user, channel_url FROM outbox") { _ in }
      : try reader.lanes(
        """
        SELECT user, channel_url FROM outbox INDEXED BY outbox_in_flight WHERE state = 'in_flight'
        UNION
        SELECT user, channel_url FROM outbox INDEXED BY outbox_uploading WHERE upload = 'running'
        """
      ) { _ in }
    for laneKey in lanes {
      let lane = isRestored ? try reader.lane(laneKey) : try reader.underWayLane(laneKey)
      try changeLane(laneKey, from: lane) {
        $0.recover(now: now, isRestored: isRestored)
        return []
      }
    }
  }

  /// Fails rows that are older than the pending lifetime (B41), shows messages that are no longer withheld,
  /// and deletes old request ids. Returns the ms until the next withheld message is shown.
  @discardableResult
  package func keepUpOutbox() throws -> Int64? {
    try expireOutbox()
    let next = try releaseWithheld()
    try forgetRequests()
    return next.map { max(0, $0 - now) }
  }

  /// Fails expired rows (B41).
  package func expireOutbox() throws {
    let moment = try outboxMoment()
    for laneKey in try reader.lanes(
      """
      SELECT DISTINCT o.user, o.channel_url
      FROM outbox AS o INDEXED BY outbox_by_expiry
      CROSS JOIN user AS u ON u.id = o.user
      WHERE o.state NOT IN ('failed', 'canceled') AND o.expires_at <= ?1 AND u.is_removed = 0
      """, { $0.bind(1, moment) })
    {
      let notices = try changeLane(laneKey, from: try reader.laneStep(laneKey, now: moment)) {
        $0.expire(now: moment)
      }
      if !notices.isEmpty { try noteLane(laneKey) }
    }
  }

  /// Fails the unsent rows of a user in a channel that the user left. Failed messages stay visible (B69).
  package func failOutbox(in laneKey: OutboxLaneKey, code: String = OutboxRow.notAMember) throws {
    let moment = try outboxMoment()
    try changeLane(laneKey) { $0.failAll(code: code, now: moment) }
    try noteLane(laneKey)
  }

  /// Reports a lane that changed outside its own jobs. The sync worker looks at it after the commit.
  func noteLane(_ laneKey: OutboxLaneKey) throws {
    let user = try db.reading.first("SELECT user_id FROM user WHERE id = ?1") {
      $0.bind(1, laneKey.user.rawValue)
    } _: {
      UserID($0.string(0))
    }
    if let user { noteLane(OutboxLaneName(user: user, channel: laneKey.channel)) }
  }
}

extension CacheReader {
  /// Every lane with a row that has a next try or is in flight, and the ms until the first of these tries.
  package func waitingLanes(now: Int64) throws -> [(lane: OutboxLaneName, wait: Int64)] {
    try db.all(
      """
      SELECT u.user_id, o.channel_url, min(o.next_try_at)
      FROM outbox AS o
      JOIN user AS u ON u.id = o.user
      WHERE o.state IN ('waiting', 'uncertain', 'in_flight') AND u.is_removed = 0
      GROUP BY o.user, o.channel_url
      """
    ) { row in
      (
        OutboxLaneName(user: UserID(row.string(0)), channel: ChannelURL(row.string(1))),
        max(0, row.int64(2) - now)
      )
    }
  }

  fileprivate func lanes(
    _ sql: StaticString, _ bind: (Statement) -> Void
  ) throws -> [OutboxLaneKey] {
    try db.all(sql, bind) { OutboxLaneKey(user: UserKey($0.int64(0)), channel: ChannelURL($0.string(1))) }
  }
}

extension OutboxRow {
  /// The upstream's code for a sender who is no member.
  package static let notAMember = "900020"
}
