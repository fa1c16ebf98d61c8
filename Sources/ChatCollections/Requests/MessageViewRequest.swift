import ChatModel
import JSON

/// The parameters with which a message collection is opened (B16).
package struct MessageViewRequest: Sendable, Equatable {
  /// The channel.
  package var channelURL: String
  /// The starting point as the client gave it; nil for the newest end.
  package var start: String?
  /// The number of rows before the start.
  package var previousSize = 40
  /// The number of rows after the start.
  package var nextSize = 40
  /// Whether messages at the very start belong to the view.
  package var isInclusive = true
  /// Whether the newest message comes first.
  package var isReversed = false
  /// Which messages the view shows, and which of their parts.
  package var filter = MessageQuery()

  /// The defaults: the newest end of the channel.
  package init(channelURL: String) { self.channelURL = channelURL }

  private enum KindWord: String, CaseIterable { case all, user, file, admin }
  private enum PolicyWord: String, CaseIterable { case replaceByAPI = "cache_and_replace_by_api" }

  /// Reads the body of an opening, or a stored one.
  package init(_ json: JSONValue) throws(InvalidFields) {
    var fields = BodyFields(json)
    channelURL = fields.text("channel_url") ?? ""
    if channelURL.isEmpty || channelURL.unicodeScalars.count > Limits.channelURLCharacters {
      fields.fault("channel_url", "Name the channel.")
    }
    start = fields.position("starting_point")
    if start == "latest" { start = nil }
    if let start, MessageViewRequest.positions(start) == nil {
      fields.fault("starting_point", "Give a time in ms since 1970, a position, or latest.")
    }
    let sizes = 0...Int64(Limits.messagePageRows)
    previousSize = Int(fields.number("previous_size", sizes) ?? 40)
    nextSize = Int(fields.number("next_size", sizes) ?? 40)
    _ = fields.word("init_policy", PolicyWord.self)
    isInclusive = fields.flag("inclusive", default: true)
    isReversed = fields.flag("reverse")
    switch fields.word("message_type", KindWord.self) ?? .all {
    case .all: break
    case .user: filter.kind = .user
    case .file: filter.kind = .file
    case .admin: filter.kind = .admin
    }
    filter.customTypes = fields.list("custom_types").map { ExactText($0) }
    filter.senders = fields.list("sender_user_ids").map { ExactText($0) }
    filter.replies = fields.word("reply_type", MessageQuery.Replies.self) ?? .none
    if let text = fields.text("parent_message_id") {
      filter.parent = Digits.messageID(text)
      if filter.parent == nil { fields.fault("parent_message_id", "Give a message_id.") }
    }
    if fields.flag("include_reactions") { filter.parts.insert(.reactions) }
    if fields.flag("include_metaarray") { filter.parts.insert(.metaarray) }
    if fields.flag("include_thread_info") { filter.parts.insert(.threadInfo) }
    if fields.flag("include_parent_message") { filter.parts.insert(.parentMessage) }
    try fields.end()
  }

  /// The positions that the start means; nil: the newest end.
  package var positions: ClosedRange<Position>? { start.flatMap(MessageViewRequest.positions) }

  /// Whether a text is a moment or a position.
  package static func isPosition(_ text: String) -> Bool { positions(text) != nil }

  private static func positions(_ text: String) -> ClosedRange<Position>? {
    if let position = Position(text) { return position...position }
    guard let time = Int64(text), time >= 0, text.utf8.count <= 16 else { return nil }
    return Position.first(at: time)...Position.last(at: time)
  }

  /// The parameters as a JSON object, which `init` reads.
  package var json: [UInt8] {
    var json = JSONWriter()
    json.beginObject()
    json.field("channel_url", channelURL)
    json.field("starting_point", start ?? "latest")
    json.field("previous_size", previousSize)
    json.field("next_size", nextSize)
    json.field("inclusive", isInclusive)
    json.field("reverse", isReversed)
    json.field("message_type", filter.kind.map { "\($0)" } ?? "all")
    MessageViewRequest.write("custom_types", filter.customTypes.map(\.text), into: &json)
    MessageViewRequest.write("sender_user_ids", filter.senders.map(\.text), into: &json)
    json.field("reply_type", filter.replies.rawValue)
    if let parent = filter.parent { json.field("parent_message_id", String(parent)) }
    json.field("include_reactions", filter.parts.contains(.reactions))
    json.field("include_metaarray", filter.parts.contains(.metaarray))
    json.field("include_thread_info", filter.parts.contains(.threadInfo))
    json.field("include_parent_message", filter.parts.contains(.parentMessage))
    json.endObject()
    return json.finish().array
  }

  static func write(_ name: StaticString, _ texts: [String], into json: inout JSONWriter) {
    json.name(name)
    json.beginArray()
    for text in texts { json.value(text) }
    json.endArray()
  }
}
