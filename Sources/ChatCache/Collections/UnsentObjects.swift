import ChatModel
import JSON
import SQLite

/// One unsent message of a user, as the user's views list it.
package struct UnsentMessage: Sendable {
  /// The name of the request that sent it.
  package let requestID: String
  /// Whether it waits, failed or was taken back.
  package let status: OutboxRow.Status
  /// Why it failed, or why it waits.
  package let errorCode: String?
  /// The message as a JSON object.
  package let object: [UInt8]
  /// The fields that views filter by.
  private let kind: MessageQuery.Kind
  private let customType: String
  private let parent: Int64?
  private let isReplyToChannel: Bool

  init(_ row: Row) throws {
    let isCanceled = row.bool(2) || row.string(1) == OutboxRow.State.canceled.rawValue
    let isFailed = row.string(1) == OutboxRow.State.failed.rawValue
    requestID = row.string(0)
    errorCode = row.stringOrNil(3)
    let words = row.stringOrNil(6)
    status = isCanceled ? .canceled : isFailed ? .failed : .pending
    object = UnsentMessage.object(
      body: row.bytes(4), params: row.bytes(5), status, errorCode: status == .failed ? errorCode : nil,
      words: words)
    (kind, customType, parent, isReplyToChannel) = try object.withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) { message in
        let kind: MessageQuery.Kind =
          switch message["type"]?.string {
          case "file": .file
          case "admin": .admin
          default: .user
          }
        return (
          kind, message["custom_type"]?.string ?? "",
          message["parent_message_id"]?.string.flatMap { Int64($0) },
          message["is_reply_to_channel"]?.bool ?? false
        )
      }
    }
  }

  /// A message as its sender sees it, from its stored content.
  static func object(_ content: OutboxContent, _ status: OutboxRow.Status) -> [UInt8] {
    content.body.withUnsafeBytes { body in
      content.params.withUnsafeBytes { object(body: body, params: $0, status, errorCode: nil, words: nil) }
    }
  }

  private static func object(
    body: UnsafeRawBufferPointer, params: UnsafeRawBufferPointer, _ status: OutboxRow.Status,
    errorCode: String?, words: String?
  ) -> [UInt8] {
    var json = JSONWriter(capacity: body.count + params.count + 128)
    json.beginObject()
    json.splice(fields: body)
    json.field("sending_status", status.rawValue)
    if let errorCode {
      json.name("error")
      json.beginObject()
      json.field("code", errorCode)
      if let words, !words.isEmpty { json.field("message", words) }
      json.endObject()
    }
    json.name("params")
    json.splice(params)
    json.endObject()
    return json.finish().array
  }

  /// Whether a view with that filter lists the message of `sender`.
  package func isShown(by filter: MessageQuery, sender: UserID) -> Bool {
    if let wanted = filter.kind, wanted != kind { return false }
    if !filter.senders.isEmpty, !filter.senders.contains(ExactText(sender.text)) { return false }
    if !filter.customTypes.isEmpty, !filter.customTypes.contains(ExactText(customType)) { return false }
    if let thread = filter.parent { return parent == thread }
    guard parent != nil else { return true }
    return switch filter.replies {
    case .none: false
    case .onlyReplyToChannel: isReplyToChannel
    case .all: true
    }
  }
}

extension CacheReader {
  /// The user's unsent messages in a channel that a filter shows, in the order of acceptance: the last
  /// `limit` that wait, and the last `limit` that failed or were canceled.
  package func unsentMessages(
    _ laneKey: OutboxLaneKey, filter: MessageQuery? = nil, sender: UserID? = nil,
    limit: Int = Limits.unsentListed
  ) throws -> [UnsentMessage] {
    let bind: (Statement) -> Void = {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
    }
    let waiting = try db.rows(
      """
      SELECT request_id, state, is_cancel_wanted, error_code, body, params, error_message, id
      FROM outbox INDEXED BY outbox_heads
      WHERE user = ?1 AND channel_url = ?2
        -- The second condition is implied. SQLite uses the partial index only if it is written out.
        AND kind IN ('message', 'file') AND kind NOT IN ('reaction', 'read')
        AND state NOT IN ('failed', 'canceled')
      ORDER BY place DESC
      """, bind)
    let ended = try db.rows(
      """
      SELECT request_id, state, is_cancel_wanted, error_code, body, params, error_message, id
      FROM outbox INDEXED BY outbox_ended
      WHERE user = ?1 AND channel_url = ?2 AND kind IN ('message', 'file')
        AND state IN ('failed', 'canceled')
      ORDER BY place DESC
      """, bind)
    let isShown: (UnsentMessage) -> Bool = { message in
      guard let filter, let sender else { return true }
      return message.isShown(by: filter, sender: sender)
    }
    let found =
      try CacheReader.first(limit, of: waiting, isShown) + CacheReader.first(limit, of: ended, isShown)
    return found.sorted { $0.id < $1.id }.map(\.message)
  }

  private static func first(
    _ limit: Int, of rows: consuming Rows, _ isShown: (UnsentMessage) -> Bool
  ) throws -> [(id: Int64, message: UnsentMessage)] {
    var rows = rows
    var found: [(id: Int64, message: UnsentMessage)] = []
    while found.count < limit, let row = try rows.next() {
      let message = try UnsentMessage(row)
      if isShown(message) { found.append((row.int64(7), message)) }
    }
    return found
  }

  /// One unsent message of the user, by its request id.
  package func unsentMessage(_ request: String, in laneKey: OutboxLaneKey) throws -> UnsentMessage? {
    try db.first(
      """
      SELECT
        o.request_id, o.state, o.is_cancel_wanted, o.error_code, o.body, o.params, o.error_message
      FROM request AS r
      JOIN outbox AS o ON o.id = r.row
      WHERE r.user = ?1
        AND r.request_id = ?2
        AND o.channel_url = ?3
        AND o.kind IN ('message', 'file')
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, request)
      $0.bind(3, laneKey.channel.text)
    } _: {
      try UnsentMessage($0)
    }
  }

  /// The numbers of the user's messages in the channel that wait, and that failed or were canceled.
  package func unsentMessageCounts(_ laneKey: OutboxLaneKey) throws -> (pending: Int64, failed: Int64) {
    try db.first(
      """
      SELECT
        count(*) FILTER (WHERE is_cancel_wanted = 0),
        count(*) FILTER (WHERE is_cancel_wanted = 1) + (
          SELECT count(*)
          FROM outbox INDEXED BY outbox_ended
          WHERE user = ?1
            AND channel_url = ?2
            AND kind IN ('message', 'file')
            AND state IN ('failed', 'canceled')
        )
      FROM outbox INDEXED BY outbox_heads
      WHERE user = ?1
        AND channel_url = ?2
        AND kind IN ('message', 'file')
        AND kind NOT IN ('reaction', 'read')
        AND state NOT IN ('failed', 'canceled')
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
    } _: {
      ($0.int64(0), $0.int64(1))
    } ?? (0, 0)
  }
}
