import ChatModel
import SQLite

// Reads the rows of a lane that one step needs. A lane may have 10 000 rows, but accepting a row, trying one
// or writing an event needs few. Each statement below uses an index of its own.
extension CacheReader {
  /// All rows of a user in a channel; empty where nothing is unsent.
  package func lane(_ laneKey: OutboxLaneKey) throws -> OutboxLane {
    var rows = LaneRows(self, laneKey)
    try rows.addLast(.max, through: .max)
    return try rows.lane()
  }

  /// The rows that decide the lane's next step and what becomes of the row `id`: that row, the first pending
  /// ordered row, rows in flight, the reaction or read mark that is tried next, running uploads, the next
  /// upload, rows expired at `now`, failed messages that hold others, and the rows that follow any of these.
  package func laneStep(_ laneKey: OutboxLaneKey, row id: Int64? = nil, now: Int64 = 0) throws -> OutboxLane {
    var rows = LaneRows(self, laneKey)
    try rows.add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_heads
      WHERE user = ?1
        AND channel_url = ?2
        AND kind NOT IN ('reaction', 'read')
        AND state NOT IN ('failed', 'canceled')
      ORDER BY place
      LIMIT 1
      """)
    try rows.addBlocking(limit: 2)
    try rows.addNextAside()
    try rows.addUnderWay()
    try rows.add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_by_expiry
      WHERE state NOT IN ('failed', 'canceled') AND expires_at <= ?3 AND user = ?1 AND channel_url = ?2
      """
    ) { $0.bind(3, now) }
    if let id {
      rows.add(id)
      try rows.add(
        "SELECT follows FROM outbox WHERE id = ?3 AND user = ?1 AND channel_url = ?2 AND follows IS NOT NULL"
      ) { $0.bind(3, id) }
    }
    try rows.addFollowers()
    return try rows.lane()
  }

  /// The rows that decide how a new row is accepted: failed messages that hold others and, for a read mark,
  /// the read marks that wait.
  func acceptanceLane(_ laneKey: OutboxLaneKey, isReadMark: Bool) throws -> OutboxLane {
    var rows = LaneRows(self, laneKey)
    try rows.addBlocking(limit: 1)
    if isReadMark {
      try rows.add(
        """
        SELECT id
        FROM outbox INDEXED BY outbox_reads
        WHERE user = ?1 AND channel_url = ?2 AND kind = 'read'
        """)
    }
    return try rows.lane()
  }

  /// The failed and canceled messages of a lane.
  func endedLane(_ laneKey: OutboxLaneKey) throws -> OutboxLane {
    var rows = LaneRows(self, laneKey)
    try rows.add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_ended
      WHERE user = ?1 AND channel_url = ?2 AND state IN ('failed', 'canceled')
      """)
    return try rows.lane()
  }

  /// The last rows of a lane up to the row `last`: as many of each index as asked for, so at least so many in
  /// all, and the rows that follow any of these.
  func lastRows(of laneKey: OutboxLaneKey, through last: Int64, atMost most: Int) throws -> OutboxLane {
    var rows = LaneRows(self, laneKey)
    try rows.addLast(most, through: last)
    try rows.addFollowers()
    return try rows.lane()
  }

  /// The rows of a lane that wait because the upstream could not be reached or gave no usable answer.
  func interruptedLane(_ laneKey: OutboxLaneKey, now: Int64) throws -> OutboxLane {
    var rows = LaneRows(self, laneKey)
    try rows.add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_interrupted
      WHERE user = ?1
        AND channel_url = ?2
        AND (state = 'uncertain' OR (state = 'waiting' AND error_code IS NOT NULL))
        AND next_try_at > ?3
      """
    ) { $0.bind(3, now) }
    return try rows.lane()
  }

  /// The rows of a lane that are in flight or uploading, and the next row to upload.
  func underWayLane(_ laneKey: OutboxLaneKey) throws -> OutboxLane {
    var rows = LaneRows(self, laneKey)
    try rows.addUnderWay()
    return try rows.lane()
  }

  /// The rows of a lane whose files are being uploaded, or were when the service ended.
  func uploadingLane(_ laneKey: OutboxLaneKey) throws -> OutboxLane {
    var rows = LaneRows(self, laneKey)
    try rows.add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_uploading
      WHERE user = ?1 AND channel_url = ?2 AND upload = 'running'
      """)
    return try rows.lane()
  }

  /// The rows of a lane whose request is being made, or was when the service ended.
  func inFlightLane(_ laneKey: OutboxLaneKey) throws -> OutboxLane {
    var rows = LaneRows(self, laneKey)
    try rows.addInFlight()
    return try rows.lane()
  }

  /// The rank of the first failed message that holds the rows behind it; nil: there is none.
  func firstBlockingRank(in laneKey: OutboxLaneKey) throws -> Int64? {
    try db.first(
      """
      SELECT place
      FROM outbox INDEXED BY outbox_blocking
      WHERE user = ?1 AND channel_url = ?2 AND state = 'failed' AND block_on_failure = 1
      ORDER BY place
      LIMIT 1
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
    } _: {
      $0.int64(0)
    }
  }

  static func outboxRow(_ row: Row) throws -> OutboxRow {
    guard let request = RequestID(row.string(1)), let kind = OutboxRow.Kind(rawValue: row.string(2)),
      let state = OutboxRow.State(rawValue: row.string(3)),
      let upload = OutboxRow.Upload(rawValue: row.string(8))
    else {
      throw CacheError.unreadable("outbox row \(row.int64(0))")
    }
    var read = OutboxRow(
      id: row.int64(0), requestID: request, kind: kind, target: row.int64OrNil(5), follows: row.int64OrNil(6),
      aspect: row.string(7), blocksOnFailure: row.bool(9), upload: upload, now: row.int64(11))
    read.state = state
    read.rank = row.int64(4)
    read.isCancelWanted = row.bool(10)
    read.expiresAt = row.int64(12)
    read.attempts = row.int(13)
    read.nextTryAt = row.int64(14)
    read.dispatchedAt = row.int64OrNil(15)
    read.mayHaveArrived = row.bool(16)
    read.absences = row.int(17)
    read.errorCode = row.stringOrNil(18)
    read.isAdmin = row.bool(21)
    read.anchor = row.int64OrNil(19).map { Position(createdAt: $0, messageID: row.int64(20)) }
    return read
  }
}

/// Collects rows of one lane, each once. Every part is a statement of its own: a union of them would make
/// SQLite build a temporary table at each step.
private struct LaneRows {
  private let reader: CacheReader
  private let laneKey: OutboxLaneKey
  private var ids: Set<Int64> = []

  init(_ reader: CacheReader, _ laneKey: OutboxLaneKey) {
    self.reader = reader
    self.laneKey = laneKey
  }

  mutating func add(_ id: Int64) { ids.insert(id) }

  /// Adds the ids that the statement selects. Its first two parameters are the lane's user and channel.
  mutating func add(_ sql: StaticString, _ bind: (Statement) -> Void = { _ in }) throws {
    var rows = try reader.db.rows(sql) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
      bind($0)
    }
    while let row = try rows.next() { ids.insert(row.int64(0)) }
  }

  /// Adds the last rows of each index, at most `most` of each, up to the row `last`.
  mutating func addLast(_ most: Int, through last: Int64) throws {
    let bind: (Statement) -> Void = {
      $0.bind(3, most)
      $0.bind(4, last)
    }
    try add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_heads
      WHERE user = ?1
        AND channel_url = ?2
        AND kind NOT IN ('reaction', 'read')
        AND state NOT IN ('failed', 'canceled')
        AND id <= ?4
      ORDER BY place DESC
      LIMIT ?3
      """, bind)
    try add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_ended
      WHERE user = ?1 AND channel_url = ?2 AND state IN ('failed', 'canceled') AND id <= ?4
      ORDER BY place DESC
      LIMIT ?3
      """, bind)
    try add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_aside
      WHERE user = ?1 AND channel_url = ?2 AND kind IN ('reaction', 'read') AND id <= ?4
      ORDER BY place DESC
      LIMIT ?3
      """, bind)
  }

  /// The rank of the lane's last row, which need not be among those collected.
  func lastRank() throws -> Int64 {
    try reader.db.first(
      """
      SELECT
        max(
          ifnull((
            SELECT max(place)
            FROM outbox INDEXED BY outbox_heads
            WHERE user = ?1
              AND channel_url = ?2
              AND kind NOT IN ('reaction', 'read')
              AND state NOT IN ('failed', 'canceled')
          ), 0),
          ifnull((
            SELECT max(place)
            FROM outbox INDEXED BY outbox_ended
            WHERE user = ?1 AND channel_url = ?2 AND state IN ('failed', 'canceled')
          ), 0),
          ifnull((
            SELECT max(place)
            FROM outbox INDEXED BY outbox_aside
            WHERE user = ?1 AND channel_url = ?2 AND kind IN ('reaction', 'read')
          ), 0)
        )
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
    } _: {
      $0.int64(0)
    } ?? 0
  }

  mutating func addBlocking(limit: Int) throws {
    try add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_blocking
      WHERE user = ?1 AND channel_url = ?2 AND state = 'failed' AND block_on_failure = 1
      ORDER BY place
      LIMIT ?3
      """
    ) { $0.bind(3, limit) }
  }

  /// The reaction or read mark that is tried next, unless an earlier one of its kind is pending.
  mutating func addNextAside() throws {
    try add(
      """
      SELECT s.id
      FROM outbox AS s INDEXED BY outbox_side
      WHERE s.user = ?1
        AND s.channel_url = ?2
        AND s.kind IN ('reaction', 'read')
        AND s.state IN ('waiting', 'uncertain')
        AND NOT EXISTS (
          SELECT 1
          FROM outbox AS e INDEXED BY outbox_by_target
          WHERE e.user = ?1 AND e.channel_url = ?2 AND e.target_id = s.target_id AND e.kind = s.kind
            AND e.aspect = s.aspect AND e.place < s.place AND e.state NOT IN ('failed', 'canceled')
        )
        AND NOT (s.kind = 'read' AND EXISTS (
          SELECT 1
          FROM outbox AS e INDEXED BY outbox_reads
          WHERE e.user = ?1 AND e.channel_url = ?2 AND e.kind = 'read' AND e.target_id IS s.target_id
            AND e.aspect = s.aspect AND e.place < s.place AND e.state NOT IN ('failed', 'canceled')
        ))
      ORDER BY s.next_try_at
      LIMIT 1
      """)
  }

  mutating func addInFlight() throws {
    try add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_in_flight
      WHERE user = ?1 AND channel_url = ?2 AND state = 'in_flight'
      """)
  }

  mutating func addUnderWay() throws {
    try addInFlight()
    try add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_uploading
      WHERE user = ?1 AND channel_url = ?2 AND upload = 'running'
      """)
    try add(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_uploads
      WHERE user = ?1 AND channel_url = ?2 AND upload = 'needed' AND state = 'waiting'
      ORDER BY next_try_at
      LIMIT 1
      """)
  }

  /// The changes that follow the rows collected so far.
  mutating func addFollowers() throws {
    for id in Array(ids) {
      try add(
        """
        SELECT id
        FROM outbox INDEXED BY outbox_followers
        WHERE follows = ?3 AND user = ?1 AND channel_url = ?2
        """
      ) { $0.bind(3, id) }
    }
  }

  func lane() throws -> OutboxLane {
    OutboxLane(rows: try ids.compactMap { try row($0) }, lastRank: try lastRank())
  }

  private func row(_ id: Int64) throws -> OutboxRow? {
    try reader.db.first(
      """
      SELECT
        id, request_id, kind, state, place, target_id, follows, aspect, upload, block_on_failure,
        is_cancel_wanted, accepted_at, expires_at, attempts, next_try_at, dispatched_at, may_have_arrived,
        absences, error_code, anchor_at, anchor_id, is_admin
      FROM outbox
      WHERE id = ?1 AND user = ?2 AND channel_url = ?3
      """
    ) {
      $0.bind(1, id)
      $0.bind(2, laneKey.user.rawValue)
      $0.bind(3, laneKey.channel.text)
    } _: {
      try CacheReader.outboxRow($0)
    }
  }
}
