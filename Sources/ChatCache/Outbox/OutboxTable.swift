import ChatModel
import SQLite

// The table `outbox`: one user's lane in one channel is read whole, changed as a value, and what differs is
// written back, with the events that tell of it, in one transaction.

/// Whose unsent messages, and where.
package struct OutboxPlace: Hashable, Sendable {
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
  /// What the client asked: a JSON object.
  package var params: [UInt8]
  /// The message as the API draws it, as fields without braces.
  package var body: [UInt8]

  /// A content.
  package init(params: [UInt8], body: [UInt8]) {
    self.params = params
    self.body = body
  }
}

extension CacheReader {
  /// The lane of a user in a channel; empty where nothing is unsent.
  package func lane(_ place: OutboxPlace) throws -> OutboxLane {
    let rows = try db.all(
      """
      SELECT
        id, request_id, kind, state, place, target_id, follows, aspect, upload, block_on_failure,
        is_cancel_wanted, accepted_at, expires_at, attempts, next_try_at, dispatched_at, may_have_arrived,
        absences, error_code, anchor_at, anchor_id, is_admin
      FROM outbox
      WHERE user = ?1 AND channel_url = ?2
      ORDER BY place
      """
    ) {
      $0.bind(1, place.user.rawValue)
      $0.bind(2, place.channel.text)
    } _: {
      try CacheReader.outboxRow($0)
    }
    return OutboxLane(rows: rows)
  }

  /// The rows that decide how a new row is accepted: failed messages that block later ones and, for a read
  /// mark, the read marks that wait. So the cost of accepting does not grow with the lane.
  func acceptanceLane(_ place: OutboxPlace, isReadMark: Bool) throws -> OutboxLane {
    let rows = try db.all(
      """
      SELECT
        id, request_id, kind, state, place, target_id, follows, aspect, upload, block_on_failure,
        is_cancel_wanted, accepted_at, expires_at, attempts, next_try_at, dispatched_at, may_have_arrived,
        absences, error_code, anchor_at, anchor_id, is_admin
      FROM outbox
      WHERE id IN (
        SELECT id
        FROM outbox INDEXED BY outbox_blocking
        WHERE user = ?1 AND channel_url = ?2 AND state = 'failed' AND block_on_failure = 1
        UNION ALL
        SELECT id
        FROM outbox INDEXED BY outbox_reads
        WHERE ?3 AND user = ?1 AND channel_url = ?2 AND kind = 'read'
      )
      """
    ) {
      $0.bind(1, place.user.rawValue)
      $0.bind(2, place.channel.text)
      $0.bind(3, isReadMark)
    } _: {
      try CacheReader.outboxRow($0)
    }
    return OutboxLane(rows: rows)
  }

  /// The last place in the lane, 0 where nothing is unsent.
  func lastPlace(in place: OutboxPlace) throws -> Int64 {
    try db.first("SELECT max(place) FROM outbox WHERE user = ?1 AND channel_url = ?2") {
      $0.bind(1, place.user.rawValue)
      $0.bind(2, place.channel.text)
    } _: {
      $0.int64OrNil(0) ?? 0
    } ?? 0
  }

  /// Whether any user has an unsent row.
  func hasUnsent() throws -> Bool {
    try db.first("SELECT 1 FROM outbox LIMIT 1") { _ in true } ?? false
  }

  /// The content of an unsent message or change, nil where there is no such row.
  package func content(ofUnsent id: Int64) throws -> OutboxContent? {
    try db.first("SELECT params, body FROM outbox WHERE id = ?1") {
      $0.bind(1, id)
    } _: {
      OutboxContent(params: Array($0.bytes(0)), body: Array($0.bytes(1)))
    }
  }

  /// The lanes in which something is to be tried at `now`, longest overdue first. A lane counts once, however
  /// many of its rows are due.
  package func dueLanes(now: Int64, limit: Int) throws -> [OutboxPlace] {
    try db.all(
      """
      SELECT user, channel_url, min(next_try_at)
      FROM outbox INDEXED BY outbox_due
      WHERE state IN ('waiting', 'uncertain') AND next_try_at <= ?1
      GROUP BY user, channel_url
      ORDER BY 3
      LIMIT ?2
      """
    ) {
      $0.bind(1, now)
      $0.bind(2, limit)
    } _: {
      OutboxPlace(user: UserKey($0.int64(0)), channel: ChannelURL($0.string(1)))
    }
  }

  /// The moment of the next try in any lane, nil where nothing waits (B43).
  package func nextTryAt() throws -> Int64? {
    try db.first(
      """
      SELECT next_try_at
      FROM outbox INDEXED BY outbox_due
      WHERE state IN ('waiting', 'uncertain')
      ORDER BY next_try_at
      LIMIT 1
      """
    ) { $0.int64(0) }
  }

  /// How many unsent messages and changes of a user wait, and how many failed.
  package func unsent(of user: UserKey) throws -> (pending: Int64, failed: Int64) {
    let counts = try unsentCounts(of: user)
    return (counts.pending, counts.failed)
  }

  /// How many unsent rows a user has, by what became of them.
  package func unsentCounts(of user: UserKey) throws -> (pending: Int64, failed: Int64, canceled: Int64) {
    try db.first("SELECT pending, failed, canceled FROM unsent_count WHERE user = ?1") {
      $0.bind(1, user.rawValue)
    } _: {
      ($0.int64(0), $0.int64(1), $0.int64(2))
    } ?? (0, 0, 0)
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
    read.place = row.int64(4)
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

extension CacheWriter {
  /// Changes a lane and writes what differs: rows, what became of requests, events. Answers the notices.
  ///
  /// `news`: the content of rows that `body` accepts, by id.
  @discardableResult
  package func changeLane(
    _ place: OutboxPlace, news: [Int64: OutboxContent] = [:],
    _ body: (inout OutboxLane) throws -> [OutboxLane.Notice]
  ) throws -> [OutboxLane.Notice] {
    try changeLane(place, from: try reader.lane(place), news: news, body)
  }

  /// Changes the lane with `body` and stores what changed. `before`: the rows of the lane that `body` needs.
  @discardableResult
  func changeLane(
    _ place: OutboxPlace, from before: OutboxLane, news: [Int64: OutboxContent] = [:],
    _ body: (inout OutboxLane) throws -> [OutboxLane.Notice]
  ) throws -> [OutboxLane.Notice] {
    var after = before
    let notices = try body(&after)
    let old = Dictionary(uniqueKeysWithValues: before.rows.map { ($0.id, $0) })
    let kept = Set(after.rows.map(\.id))
    for case .merged(let from, let to) in notices { try merge(from, into: to, in: place) }
    for row in after.rows {
      if let known = old[row.id] {
        if known != row { try update(row) }
      } else if let content = news[row.id] {
        try insert(row, content, in: place)
      } else {
        throw CacheError.unreadable("outbox row \(row.id) without content")
      }
    }
    for row in before.rows where !kept.contains(row.id) {
      try db.run("DELETE FROM outbox WHERE id = ?1") { $0.bind(1, row.id) }
    }
    for notice in notices { try tell(notice, in: place, before, after) }
    return notices
  }

  /// The id of the next row, never given before.
  package func nextUnsentID() throws -> Int64 {
    (try db.reading.first("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'") { $0.int64(0) } ?? 0) + 1
  }

  private func insert(_ row: OutboxRow, _ content: OutboxContent, in place: OutboxPlace) throws {
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
          $0.bind(2, place.user.rawValue)
          $0.bind(3, place.channel.text)
          $0.bind(4, row.requestID.text)
          $0.bind(5, row.kind.rawValue)
          $0.bind(6, row.state.rawValue)
          $0.bind(7, row.place)
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
        may_have_arrived = ?13, absences = ?14, error_code = ?15, anchor_at = ?16, anchor_id = ?17
      WHERE id = ?1
      """
    ) {
      $0.bind(1, row.id)
      $0.bind(2, row.state.rawValue)
      $0.bind(3, row.place)
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

  /// The edit's fields take the place of the unsent message's.
  private func merge(_ edit: Int64, into message: Int64, in place: OutboxPlace) throws {
    guard let changes = try reader.content(ofUnsent: edit),
      let content = try reader.content(ofUnsent: message)
    else {
      return
    }
    try rewrite(message, reader.edited(content, by: changes.params, in: place.channel))
  }

  /// Gives an unsent message another content.
  func rewrite(_ id: Int64, _ content: OutboxContent) throws {
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
}
