import ChatModel
import JSON
import SQLite

// The upstream returns a message that a user of this cache sent: in the answer to the send, in a listing
// after a webhook, or in a changelog. The commit that stores the message also deletes the unsent row, so no
// client sees both (B38).

/// Which senders have unsent rows, read once for a batch of messages.
struct UnsentSenders {
  /// Whether any request is remembered; nil: not looked up yet.
  var isAnyRequest: Bool?
  /// Whether any user has unsent rows; nil: not looked up yet.
  var isAny: Bool?
  /// The keys of the senders that were looked up; nil: that sender never connected here.
  var users: [UserID: UserKey?] = [:]
}

extension CacheWriter {
  /// Called after a message was stored. If the message names the request of an unsent row, the row has
  /// succeeded and is deleted. If it names no request but may come from a send under way, it is withheld from
  /// its sender's views.
  func noteAnswer(_ record: MessageRecord, isNew: Bool, _ batch: inout MessageBatch) throws {
    let isAnyUnsent = try isAnyUnsent(&batch)
    guard try isAnyUnsent || !record.requestID.isEmpty && isAnyRequest(&batch), !record.sender.isEmpty,
      let user = try sender(UserID(record.sender), &batch.senders),
      let url = try reader.url(of: batch.channel)
    else { return }
    let laneKey = OutboxLaneKey(user: user, channel: url)
    if let request = RequestID(record.requestID) {
      guard isAnyUnsent, let id = try reader.row(of: request, in: laneKey) else {
        try release(record.messageID, of: user, isNew: isNew, batch)
        return try noteLateAnswer(record.messageID, to: request, in: laneKey)
      }
      let moment = try outboxMoment()
      let edited = try reader.editedWhileSent(id)
      try changeLane(laneKey, from: try reader.laneStep(laneKey, row: id)) {
        $0.confirm(id, message: record.messageID, now: moment)
      }
      try sendEdit(edited, of: request, missingIn: record, in: laneKey)
      noteLane(OutboxLaneName(user: UserID(record.sender), channel: url))
      try release(record.messageID, of: user, isNew: isNew, batch)
    } else if isNew, isAnyUnsent, try reader.hasUnansweredMessage(in: laneKey, before: record.position) {
      try withhold(record, from: user, in: batch.channel)
    }
  }

  /// Called when an answer about the channel told of a last message that the cache has not listed. If the
  /// message may come from a send under way, it is withheld from its sender's views, as after a listing.
  func noteUnlisted(_ record: MessageRecord, in channel: ChannelKey, named url: ChannelURL) throws {
    guard try reader.hasUnsent(), let user = try reader.userKey(of: UserID(record.sender)),
      try reader.time(of: record.messageID, in: channel) == nil
    else { return }
    let laneKey = OutboxLaneKey(user: user, channel: url)
    let mayBeAnswer =
      if let named = RequestID(record.requestID) {
        try reader.row(of: named, in: laneKey) != nil
      } else {
        try reader.hasUnansweredMessage(in: laneKey, before: record.position)
          && !reader.isClaimed(record.messageID, by: user)
      }
    if mayBeAnswer { try withhold(record, from: user, in: channel) }
  }

  /// Stores which message the request sent, if its unsent row was removed while under way. A repetition of
  /// the request is then answered with the message (B37).
  private func noteLateAnswer(
    _ message: Int64, to request: RequestID, in laneKey: OutboxLaneKey
  ) throws {
    try db.run(
      """
      UPDATE request
      SET message_id = ?4, ended_as = 'succeeded'
      WHERE user = ?1 AND request_id = ?2 AND channel_url = ?3 AND ended_as = 'removed' AND is_message = 1
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, request.text)
      $0.bind(3, laneKey.channel.text)
      $0.bind(4, message)
    }
  }

  /// Whether the message names the request of an unsent row of its sender.
  func answersUnsent(_ record: MessageRecord, _ batch: inout MessageBatch) throws -> Bool {
    guard let request = RequestID(record.requestID), try isAnyUnsent(&batch),
      let user = try sender(UserID(record.sender), &batch.senders),
      let url = try reader.url(of: batch.channel)
    else { return false }
    return try reader.row(of: request, in: OutboxLaneKey(user: user, channel: url)) != nil
  }

  private func isAnyUnsent(_ batch: inout MessageBatch) throws -> Bool {
    if let known = batch.senders.isAny { return known }
    let isAny = try reader.hasUnsent()
    batch.senders.isAny = isAny
    return isAny
  }

  private func isAnyRequest(_ batch: inout MessageBatch) throws -> Bool {
    if let known = batch.senders.isAnyRequest { return known }
    let isAny = try reader.hasRequests()
    batch.senders.isAnyRequest = isAny
    return isAny
  }

  /// The message with the id of the request that sent it. If the upstream does not name the request, the
  /// cache adds the id that it knows from an earlier answer.
  func naming(_ record: MessageRecord, _ batch: inout MessageBatch) throws -> MessageRecord {
    guard record.requestID.isEmpty, !record.sender.isEmpty else { return record }
    guard try isAnyRequest(&batch), let user = try sender(UserID(record.sender), &batch.senders),
      let request = try reader.request(answeredBy: record.messageID, of: user)
    else { return record }
    var named = record
    named.requestID = request
    named.body = try Fields.lay(Array("\"request_id\":\"\(request)\"".utf8), over: record.body)
    return named
  }

  /// Adds the id of the request that sent the message to the stored message, which is newer than the answer
  /// that names it. Without the id a client would show the message beside its unsent one (B38).
  func nameStored(
    _ record: MessageRecord, at position: Position, _ batch: inout MessageBatch
  ) throws {
    guard let request = RequestID(record.requestID), position == record.position,
      let body = try reader.body(at: position, in: batch.channel)
    else { return }
    let named = try Fields.lay(Array("\"request_id\":\"\(request)\"".utf8), over: body)
    guard named != body else { return }
    let sequence = batch.sequence(for: record, isFirst: false, next: takeSequence)
    try db.run(
      """
      UPDATE message
      SET body = ?4, version = ?5, first_version = iif(first_version = 0, version, first_version)
      WHERE channel = ?1 AND created_at = ?2 AND message_id = ?3
      """
    ) {
      $0.bind(1, batch.channel.rawValue)
      $0.bind(2, position.createdAt)
      $0.bind(3, position.messageID)
      $0.bind(4, copyOf: named)
      $0.bind(5, sequence)
    }
    batch.bytes += Int64(named.count - body.count)
  }

  private func sender(_ user: UserID, _ senders: inout UnsentSenders) throws -> UserKey? {
    if let known = senders.users[user] { return known }
    let key = try reader.userKey(of: user)
    senders.users[user] = .some(key)
    return key
  }

  private func withhold(_ record: MessageRecord, from user: UserKey, in channel: ChannelKey) throws {
    try db.run(
      """
      INSERT OR IGNORE INTO withheld (user, channel, message_id, created_at, until)
      VALUES (?1, ?2, ?3, ?4, ?5)
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
      $0.bind(3, record.messageID)
      $0.bind(4, record.createdAt)
      $0.bind(5, now + Limits.withheldMilliseconds)
    }
  }

  /// Stops withholding the message. If it was stored before, its user is told of it now.
  private func release(_ message: Int64, of user: UserKey, isNew: Bool, _ batch: MessageBatch) throws {
    let isReleased = try release(message, of: user, in: batch.channel)
    if isReleased, !isNew { try show(message, to: user, in: batch.channel, batch.source) }
  }

  /// Stops withholding the message: the user's views may show it. False: it was not withheld.
  @discardableResult
  func release(_ message: Int64, of user: UserKey, in channel: ChannelKey) throws -> Bool {
    try db.run("DELETE FROM withheld WHERE user = ?1 AND channel = ?2 AND message_id = ?3") {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
      $0.bind(3, message)
    } > 0
  }

  /// Tells the user of a message that was withheld, as it is stored now. If it is not listed yet, it is shown
  /// only as the channel's last one.
  func show(
    _ message: Int64, to user: UserKey, in channel: ChannelKey, _ source: ChangeSource
  ) throws {
    guard let position = try reader.position(of: message, in: channel) else {
      guard try reader.lastMessage(of: channel)?.messageID == message else { return }
      return _ = try append(Change(.membership, source, channel: channel, user: user))
    }
    var change = Change(.messages, source, channel: channel, user: user)
    change.stretch = position...position
    try append(change)
  }

  /// Shows the messages that were withheld from the user in the channel, if no send there waits for its
  /// answer any more.
  func releaseWithheld(in laneKey: OutboxLaneKey) throws {
    guard let channel = try reader.channelKey(of: laneKey.channel),
      try !reader.hasUnansweredMessage(in: laneKey)
    else { return }
    try release(of: laneKey.user, in: channel, before: .max)
  }

  /// Shows the messages whose `until` has passed. Returns the next `until`, ms. An `until` beyond the longest
  /// withholding was stored before the clock was set back, so it ends now.
  package func releaseWithheld() throws -> Int64? {
    try db.run("UPDATE withheld SET until = ?1 WHERE until > ?2") {
      $0.bind(1, now)
      $0.bind(2, now + Limits.withheldMilliseconds)
    }
    for (user, channel) in try db.reading.all(
      "SELECT DISTINCT user, channel FROM withheld INDEXED BY withheld_by_end WHERE until <= ?1",
      { $0.bind(1, now) }, { (UserKey($0.int64(0)), ChannelKey($0.int64(1))) })
    {
      try release(of: user, in: channel, before: now)
    }
    return try db.reading.first("SELECT min(until) FROM withheld") { $0.int64OrNil(0) } ?? nil
  }

  private func release(of user: UserKey, in channel: ChannelKey, before moment: Int64) throws {
    let messages = try db.reading.all(
      """
      SELECT message_id
      FROM withheld
      WHERE user = ?1 AND channel = ?2 AND until <= ?3
      ORDER BY created_at, message_id
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
      $0.bind(3, moment)
    } _: {
      $0.int64(0)
    }
    for message in messages {
      try release(message, of: user, in: channel)
      try show(message, to: user, in: channel, .messageReceived)
    }
  }
}

extension CacheReader {
  /// The fields of a stored message, without braces.
  fileprivate func body(at position: Position, in channel: ChannelKey) throws -> [UInt8]? {
    try db.first("SELECT body FROM message WHERE channel = ?1 AND created_at = ?2 AND message_id = ?3") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, position.createdAt)
      $0.bind(3, position.messageID)
    } _: {
      Array($0.bytes(0))
    }
  }

  /// The row of a request in a lane.
  func row(of request: RequestID, in laneKey: OutboxLaneKey) throws -> Int64? {
    try db.first(
      """
      SELECT o.id
      FROM request AS r
      JOIN outbox AS o ON o.id = r.row
      WHERE r.user = ?1 AND r.request_id = ?2 AND o.channel_url = ?3
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, request.text)
      $0.bind(3, laneKey.channel.text)
    } _: {
      $0.int64(0)
    }
  }

  /// Whether the upstream may have a message of this lane whose send has no answer yet. `position`: whether
  /// it may be that message; it follows the newest one that was known when the send began (B39).
  func hasUnansweredMessage(in laneKey: OutboxLaneKey, before position: Position = .end) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM outbox INDEXED BY outbox_unanswered
      WHERE user = ?1
        AND channel_url = ?2
        AND state IN ('in_flight', 'uncertain')
        AND kind IN ('message', 'file')
        AND (anchor_at IS NULL OR (anchor_at, anchor_id) < (?3, ?4))
      LIMIT 1
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
      $0.bind(3, position.createdAt)
      $0.bind(4, position.messageID)
    } _: { _ in
      true
    } ?? false
  }

  /// Whether any request is remembered.
  func hasRequests() throws -> Bool {
    try db.first("SELECT 1 FROM request LIMIT 1") { _ in true } ?? false
  }

  /// The id of the user's request that sent this message.
  package func request(answeredBy message: Int64, of user: UserKey) throws -> String? {
    try db.first(
      """
      SELECT request_id
      FROM request INDEXED BY request_by_message
      WHERE user = ?1 AND message_id = ?2 AND is_message = 1
      LIMIT 1
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, message)
    } _: {
      $0.string(0)
    }
  }

  /// Whether the cache knows which request of the user sent the message.
  package func isClaimed(_ message: Int64, by user: UserKey) throws -> Bool {
    try request(answeredBy: message, of: user) != nil
  }

  /// The newest known position in the channel: that of a stored message or of the channel's last message.
  func newestKnown(in channel: ChannelKey) throws -> Position? {
    let stored = try newestPosition(in: channel)
    guard let last = try lastMessage(of: channel) else { return stored }
    return stored.map { max($0, last) } ?? last
  }
}
