import ChatModel
import SQLite

/// A client's request to send or change something, checked and rendered, before it is stored in the outbox.
package struct UnsentRequest: Sendable {
  /// The request id that the client gave, or a generated one.
  package var requestID: RequestID
  /// The kind of message or change.
  package var kind: OutboxRow.Kind
  /// The confirmed message to change.
  package var target: Int64?
  /// The request id of the unsent message to change.
  package var unsentTarget: RequestID?
  /// Distinguishes changes of one target that must keep their order, such as a reaction's key.
  package var aspect = ""
  /// Whether its failure holds the rows behind it.
  package var blocksOnFailure = false
  /// Whether a file has to be uploaded first.
  package var upload = OutboxRow.Upload.none
  /// The content to send and to show.
  package var content: OutboxContent
  /// A hash of the whole request, by which a repetition is recognized.
  package var contentHash: [UInt8]
  /// How long the row may wait to be sent, ms.
  package var lifetime = Limits.pendingMilliseconds
  /// The length of the text in characters.
  package var textLength = 0
  /// Whether its sender has the scope `admin`.
  package var isAdmin = false
  /// Whether only the scope `admin` may send it.
  package var needsAdmin = false
  /// The rank in the lane, if it replaces a row that ended; nil: the lane's end.
  package var rank: Int64?
  /// The file that came with it.
  package var file: SentFile?
  /// The sender, if the message's JSON is rendered when it is accepted. Nil: `content.body` has it already.
  package var sender: UserID?

  /// A request with only the required parts.
  package init(
    requestID: RequestID, kind: OutboxRow.Kind, content: OutboxContent, contentHash: [UInt8]
  ) {
    self.requestID = requestID
    self.kind = kind
    self.content = content
    self.contentHash = contentHash
  }
}

/// The result of accepting a request (B37).
package enum Accepted: Sendable, Hashable {
  /// The request is stored as that row. `message`: the message's JSON as its sender sees it, if it was
  /// rendered now.
  case row(Int64, message: [UInt8] = [])
  /// The edit changed the unsent message of that row, or the deletion canceled that message.
  case changed(Int64)
  /// The same request was accepted before; its present status.
  case replay(RequestStatus)
  /// The id was used before for a different request.
  case mismatch
  /// The unsent message does not exist.
  case noTarget
}

/// The stored status of a request.
package struct RequestStatus: Sendable, Hashable {
  /// The id of the unsent row, while there is one.
  package var row: Int64?
  /// How the request ended: succeeded, dropped, removed or merged.
  package var end: String?
  /// The message that it sent or changed.
  package var message: Int64?
  /// Whether it sent that message, and did not change another one.
  package var isMessage = false
  /// Why the change was dropped.
  package var errorCode: String?
}

extension CacheWriter {
  /// Stores a user's request, if the user has the right and room for one more row; throws a `SendingDenial`
  /// otherwise. A repetition returns the status of the first request, even if the user may no longer send.
  package func accept(
    _ request: UnsentRequest, of user: UserID, in url: ChannelURL, _ policy: OutboxPolicy
  ) throws -> Accepted {
    var lane = try acceptingLane(of: user, in: url)
    let remembered = try reader.remembered(request.requestID, of: lane.view.user)
    if remembered == nil {
      if request.needsAdmin, !request.isAdmin { throw SendingDenial.notAllowed(.adminOnly) }
      guard lane.unsent < policy.maximumUnsent else { throw SendingDenial.full(limit: policy.maximumUnsent) }
      let rules = try lane.rules ?? reader.sendingRules(of: lane.view.channel)
      lane.rules = rules
      try reader.checkRights(
        of: SendingRights(
          kind: request.unsentTarget == nil ? request.kind : .message, target: request.target,
          textLength: request.textLength, isAdmin: request.isAdmin), lane.view, user, rules)
    }
    let accepted = try accept(request, in: lane.key, remembered, known: lane)
    if case .row = accepted, request.kind == .read { try markRead(lane.view) }
    return accepted
  }

  /// Stores a request, once per id.
  package func accept(_ request: UnsentRequest, in laneKey: OutboxLaneKey) throws -> Accepted {
    try accept(request, in: laneKey, try reader.remembered(request.requestID, of: laneKey.user))
  }

  private func accept(
    _ request: UnsentRequest, in laneKey: OutboxLaneKey,
    _ remembered: (hash: [UInt8], status: RequestStatus)?, known: AcceptingLane? = nil
  ) throws -> Accepted {
    switch Acceptance.decide(remembered: remembered?.hash, asked: request.contentHash) {
    case .mismatch: return .mismatch
    case .replay: return .replay(remembered?.status ?? RequestStatus())
    case .new: break
    }
    let moment = try outboxMoment()
    var follows: Int64?
    if let name = request.unsentTarget {
      let lane = try reader.laneStep(laneKey, row: try reader.row(of: name, in: laneKey))
      guard let row = lane.row(name), let reach = lane.reach(ofEdit: row.id) else { return .noTarget }
      switch reach {
      case .row:
        try remember(request, in: laneKey, as: nil)
        return try change(row.id, by: request, in: laneKey, moment)
      case .follows(let id): follows = id
      }
    }
    var row = OutboxRow(
      id: try known?.lastID.map { $0 + 1 } ?? nextUnsentID(), requestID: request.requestID,
      kind: request.kind, target: request.target, follows: follows, aspect: request.aspect,
      blocksOnFailure: request.blocksOnFailure, upload: request.upload, now: moment,
      lifetime: request.lifetime)
    row.nextTryAt = now
    row.isAdmin = request.isAdmin
    return try insert(row, request, in: laneKey, moment, known)
  }

  /// Stores the request and its row, and keeps what the next request of the batch can use.
  private func insert(
    _ row: OutboxRow, _ request: UnsentRequest, in laneKey: OutboxLaneKey, _ moment: Int64,
    _ known: AcceptingLane?
  ) throws -> Accepted {
    try remember(request, in: laneKey, as: row.id)
    var content = request.content
    var sender = known?.sender
    if let user = request.sender {
      let drawn = try sender ?? reader.person(user, in: laneKey.channel)
      sender = drawn
      content.body = try reader.unsentBody(
        content.params, request.requestID, drawnSender: drawn, in: laneKey.channel, at: moment)
    }
    let isReadMark = request.kind == .read
    let lane =
      try (isReadMark ? nil : known?.lane) ?? reader.acceptanceLane(laneKey, isReadMark: isReadMark)
    try changeLane(laneKey, from: lane, news: [row.id: content]) {
      $0.accept(row, at: request.rank, now: moment)
    }
    if let file = request.file { try setFile(file, of: row.id) }
    if !request.kind.isMessage { try keepTargetKind(of: row, in: laneKey) }
    if var next = known, request.kind.isMessage, request.rank == nil {
      next.unsent += 1
      next.sender = sender
      next.lane = OutboxLane(rows: lane.rows, lastRank: lane.lastRank + 1)
      next.lastID = row.id
      next.changedRows = db.changedRows
      accepting = next
    }
    guard request.sender != nil else { return .row(row.id) }
    return .row(row.id, message: UnsentMessage.object(content, .pending))
  }

  /// Stores the kind of the message that a change is about. The upstream's call needs it, and the message may
  /// be evicted before the change is sent.
  private func keepTargetKind(of row: OutboxRow, in laneKey: OutboxLaneKey) throws {
    var kind: MessageQuery.Kind?
    if let followed = row.follows {
      kind = try reader.content(ofUnsent: followed).map { try $0.messageKind }
    } else if let target = row.target, let channel = try reader.channelKey(of: laneKey.channel) {
      kind = try reader.kind(of: target, in: channel)
    }
    guard let kind else { return }
    try db.run("UPDATE outbox SET target_kind = ?2 WHERE id = ?1") {
      $0.bind(1, row.id)
      $0.bind(2, kind.rawValue)
    }
  }

  /// Applies an edit or a deletion to an unsent message that is not under way (B46).
  private func change(
    _ id: Int64, by request: UnsentRequest, in laneKey: OutboxLaneKey, _ moment: Int64
  ) throws -> Accepted {
    if request.kind == .delete {
      try changeLane(laneKey, from: try reader.laneStep(laneKey, row: id)) {
        $0.cancel(id, now: moment).notices
      }
    } else if let content = try reader.content(ofUnsent: id) {
      try rewrite(id, reader.edited(content, by: request.content.params, in: laneKey.channel))
      let lane = try reader.laneStep(laneKey, row: id)
      try tell(.merged(from: id, to: id), in: laneKey, lane, lane)
    }
    return .changed(id)
  }

  /// Remembers a request (B37). `row`: its row in the outbox; nil: the request ended when it was accepted.
  package func remember(_ request: UnsentRequest, in laneKey: OutboxLaneKey, as row: Int64?) throws {
    try request.contentHash.withUnsafeBytes { hash in
      _ = try db.run(
        """
        INSERT INTO request (
          user, request_id, channel_url, content_hash, message_id, ended_at, ended_as, is_message, row
        )
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        """
      ) {
        $0.bind(1, laneKey.user.rawValue)
        $0.bind(2, request.requestID.text)
        $0.bind(3, laneKey.channel.text)
        $0.bind(4, blob: hash)
        $0.bind(5, request.target)
        $0.bind(6, row == nil ? now : nil)
        $0.bind(7, row == nil ? "merged" : nil)
        $0.bind(8, request.kind.isMessage)
        $0.bind(9, row)
      }
    }
  }

  /// Forgets requests that ended more than seven days ago, at most `limit`. Returns their number.
  @discardableResult
  package func forgetRequests(limit: Int = 500) throws -> Int {
    let ended = try db.reading.all(
      """
      SELECT user, request_id
      FROM request INDEXED BY request_by_end
      WHERE ended_at IS NOT NULL AND ended_at < ?1
      LIMIT ?2
      """
    ) {
      $0.bind(1, now - Limits.requestMemoryMilliseconds)
      $0.bind(2, limit)
    } _: {
      (user: $0.int64(0), request: $0.string(1))
    }
    for (user, request) in ended {
      try db.run("DELETE FROM request WHERE user = ?1 AND request_id = ?2") {
        $0.bind(1, user)
        $0.bind(2, request)
      }
    }
    return ended.count
  }
}

extension CacheReader {
  /// The stored status of a request id (B37).
  package func status(of request: RequestID, of user: UserKey) throws -> RequestStatus? {
    try remembered(request, of: user)?.status
  }

  fileprivate func remembered(
    _ request: RequestID, of user: UserKey
  ) throws -> (hash: [UInt8], status: RequestStatus)? {
    try db.first(
      """
      SELECT
        r.content_hash, o.id, r.ended_as, r.message_id, coalesce(r.error_code, o.error_code), r.is_message
      FROM request AS r
      LEFT JOIN outbox AS o ON o.id = r.row
      WHERE r.user = ?1 AND r.request_id = ?2
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, request.text)
    } _: { row in
      (
        Array(row.bytes(0)),
        RequestStatus(
          row: row.int64OrNil(1), end: row.stringOrNil(2), message: row.int64OrNil(3),
          isMessage: row.bool(5), errorCode: row.stringOrNil(4))
      )
    }
  }
}
