import ChatModel
import SQLite

// The table `outbox`. A step reads the rows of a lane that it needs, changes them as a value, and writes back
// the rows that differ and the events that tell of them, in one transaction.

/// One user's unsent rows in one channel, named by the user's key.
package struct OutboxLaneKey: Hashable, Sendable {
  /// The user who sends.
  package let user: UserKey
  /// The channel that is sent into.
  package let channel: ChannelURL

  /// Names a lane.
  package init(user: UserKey, channel: ChannelURL) {
    self.user = user
    self.channel = channel
  }
}

/// The content of an unsent message or change.
package struct OutboxContent: Hashable, Sendable {
  /// The client's parameters: a JSON object.
  package var params: [UInt8]
  /// The message as the API shows it: fields without braces.
  package var body: [UInt8]

  /// Content with both parts.
  package init(params: [UInt8], body: [UInt8]) {
    self.params = params
    self.body = body
  }
}

extension CacheReader {
  /// Whether any user has an unsent row.
  func hasUnsent() throws -> Bool {
    try db.first("SELECT 1 FROM outbox LIMIT 1") { _ in true } ?? false
  }

  /// The content of an unsent message or change, nil if the row does not exist.
  package func content(ofUnsent id: Int64) throws -> OutboxContent? {
    try db.first("SELECT params, body FROM outbox WHERE id = ?1") {
      $0.bind(1, id)
    } _: {
      OutboxContent(params: Array($0.bytes(0)), body: Array($0.bytes(1)))
    }
  }

  /// The numbers of a user's pending and failed rows.
  package func unsent(of user: UserKey) throws -> (pending: Int64, failed: Int64) {
    let counts = try unsentCounts(of: user)
    return (counts.pending, counts.failed)
  }
}

extension CacheWriter {
  /// Lends all rows of a lane to `body`, and stores changed rows, requests and events. Returns the notices.
  @discardableResult
  package func changeLane(
    _ laneKey: OutboxLaneKey, _ body: (inout OutboxLane) throws -> [OutboxLane.Notice]
  ) throws -> [OutboxLane.Notice] {
    try changeLane(laneKey, from: try reader.lane(laneKey), body)
  }

  /// Changes the lane with `body` and stores what changed. `before`: the rows of the lane that `body` needs.
  /// `news`: the content of rows that `body` accepts, by id.
  @discardableResult
  func changeLane(
    _ laneKey: OutboxLaneKey, from before: OutboxLane, news: [Int64: OutboxContent] = [:],
    _ body: (inout OutboxLane) throws -> [OutboxLane.Notice]
  ) throws -> [OutboxLane.Notice] {
    var after = before
    let notices = try body(&after)
    let old = Dictionary(uniqueKeysWithValues: before.rows.map { ($0.id, $0) })
    let kept = Set(after.rows.map(\.id))
    for case .merged(let from, let to) in notices { try merge(from, into: to, in: laneKey) }
    for row in after.rows {
      if let known = old[row.id] {
        if known != row { try update(row) }
        if known.target == nil, row.kind.isMessage, let message = row.target {
          try claim(message, for: row.requestID, of: laneKey.user)
        }
      } else if let content = news[row.id] {
        try insert(row, content, in: laneKey)
      } else {
        throw CacheError.unreadable("outbox row \(row.id) has no content")
      }
    }
    for row in before.rows where !kept.contains(row.id) {
      try freeFile(of: row)
      try db.run("DELETE FROM outbox WHERE id = ?1") { $0.bind(1, row.id) }
    }
    var counts = UnsentCounts()
    for row in before.rows { counts.add(row.state, -1) }
    for row in after.rows { counts.add(row.state) }
    try count(counts, of: laneKey.user)
    if before.blocking != after.blocking {
      try holdRest(laneKey)
      try noteLane(laneKey)
    }
    for notice in notices { try tell(notice, in: laneKey, before, after) }
    return notices
  }

  /// Holds or releases the rows that the step did not read, after a failed message began or ceased to hold.
  private func holdRest(_ laneKey: OutboxLaneKey) throws {
    let first = try reader.firstBlockingRank(in: laneKey) ?? .max
    try db.run(
      """
      UPDATE outbox INDEXED BY outbox_heads
      SET state = 'held'
      WHERE user = ?1
        AND channel_url = ?2
        AND place > ?3
        AND kind NOT IN ('reaction', 'read')
        AND state NOT IN ('failed', 'canceled')
        AND state = 'waiting'
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
      $0.bind(3, first)
    }
    try db.run(
      """
      UPDATE outbox INDEXED BY outbox_heads
      SET state = 'waiting', next_try_at = min(next_try_at, ?4)
      WHERE user = ?1
        AND channel_url = ?2
        AND place <= ?3
        AND kind NOT IN ('reaction', 'read')
        AND state NOT IN ('failed', 'canceled')
        AND state = 'held'
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
      $0.bind(3, first)
      $0.bind(4, now)
    }
  }

  /// The id of the next row, never given before.
  package func nextUnsentID() throws -> Int64 {
    (try db.reading.first("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'") { $0.int64(0) } ?? 0) + 1
  }

  private func insert(_ row: OutboxRow, _ content: OutboxContent, in laneKey: OutboxLaneKey) throws {
    noteRowsChanged(of: laneKey.user)
    try content.params.withUnsafeBytes { params in
      try content.body.withUnsafeBytes { body in
        _ = try db.run(
          """
          INSERT INTO outbox (
            id, user, channel_url, request_id, kind, state, place, target_id, follows, aspect, upload, params,
            body, block_on_failure, accepted_at, expires_at, next_try_at, is_admin
          )
          VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
          """
        ) {
          $0.bind(1, row.id)
          $0.bind(2, laneKey.user.rawValue)
          $0.bind(3, laneKey.channel.text)
          $0.bind(4, row.requestID.text)
          $0.bind(5, row.kind.rawValue)
          $0.bind(6, row.state.rawValue)
          $0.bind(7, row.rank)
          $0.bind(8, row.target)
          $0.bind(9, row.follows)
          $0.bind(10, row.aspect)
          $0.bind(11, row.upload.rawValue)
          $0.bind(12, blob: params)
          $0.bind(13, blob: body)
          $0.bind(14, row.blocksOnFailure)
          $0.bind(15, row.acceptedAt)
          $0.bind(16, row.expiresAt)
          $0.bind(17, row.nextTryAt)
          $0.bind(18, row.isAdmin)
        }
      }
    }
  }

  private func update(_ row: OutboxRow) throws {
    try db.run(
      """
      UPDATE outbox
      SET state = ?2, place = ?3, target_id = ?4, follows = ?5, upload = ?6, is_cancel_wanted = ?7,
        accepted_at = ?8, expires_at = ?9, attempts = ?10, next_try_at = ?11, dispatched_at = ?12,
        may_have_arrived = ?13, absences = ?14, error_code = ?15, anchor_at = ?16, anchor_id = ?17,
        error_message = CASE WHEN error_code IS ?15 THEN error_message END
      WHERE id = ?1
      """
    ) {
      $0.bind(1, row.id)
      $0.bind(2, row.state.rawValue)
      $0.bind(3, row.rank)
      $0.bind(4, row.target)
      $0.bind(5, row.follows)
      $0.bind(6, row.upload.rawValue)
      $0.bind(7, row.isCancelWanted)
      $0.bind(8, row.acceptedAt)
      $0.bind(9, row.expiresAt)
      $0.bind(10, row.attempts)
      $0.bind(11, row.nextTryAt)
      $0.bind(12, row.dispatchedAt)
      $0.bind(13, row.mayHaveArrived)
      $0.bind(14, row.absences)
      $0.bind(15, row.errorCode)
      $0.bind(16, row.anchor?.createdAt)
      $0.bind(17, row.anchor?.messageID)
    }
  }

  /// The edit's fields replace those of the unsent message.
  private func merge(_ edit: Int64, into message: Int64, in laneKey: OutboxLaneKey) throws {
    guard let changes = try reader.content(ofUnsent: edit),
      let content = try reader.content(ofUnsent: message)
    else {
      return
    }
    try rewrite(message, reader.edited(content, by: changes.params, in: laneKey.channel))
  }

  /// Replaces an unsent message's content after its file was uploaded or replaced, which is no edit.
  func redraw(_ id: Int64, _ content: OutboxContent) throws {
    try content.params.withUnsafeBytes { params in
      try content.body.withUnsafeBytes { body in
        _ = try db.run("UPDATE outbox SET params = ?2, body = ?3 WHERE id = ?1") {
          $0.bind(1, id)
          $0.bind(2, blob: params)
          $0.bind(3, blob: body)
        }
      }
    }
  }

  /// Replaces an unsent message's content. `is_edited` marks that a copy with the old one may have been sent.
  func rewrite(_ id: Int64, _ content: OutboxContent) throws {
    try content.params.withUnsafeBytes { params in
      try content.body.withUnsafeBytes { body in
        _ = try db.run(
          """
          UPDATE outbox
          SET params = ?2, body = ?3, is_edited = anchor_at IS NOT NULL
          WHERE id = ?1
          """
        ) {
          $0.bind(1, id)
          $0.bind(2, blob: params)
          $0.bind(3, blob: body)
        }
      }
    }
  }
}
