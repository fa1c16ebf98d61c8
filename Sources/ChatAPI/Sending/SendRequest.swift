import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP

/// The body of sendMessage, checked.
struct SendRequest: Sendable {
  /// The types of message that a client can send.
  enum Kind: String, CaseIterable { case user, file, admin }

  /// The file that a file message names.
  struct File: Sendable {
    var url: String?
    var name: String?
    var mime: String?
    var size: Int64?

    /// Whether nothing of it was given.
    var isEmpty: Bool { url == nil && name == nil && mime == nil && size == nil }
  }

  let kind: Kind
  let content: MessageContent
  let file: File
  /// The message that it replies to, as the client named it.
  let parent: String?
  let isReplyToChannel: Bool
  let isSilent: Bool
  let requestID: RequestID?
  let blocksOnFailure: Bool

  /// Reads a body; throws the fields at fault. `received`: the file that came with it.
  init(_ json: JSONValue, _ received: ReceivedFile? = nil) throws(InvalidFields) {
    var fields = BodyFields(json, whole: received == nil ? "body" : "params")
    kind = fields.word("type", Kind.self) ?? (received == nil ? .user : .file)
    if received != nil, kind != .file { fields.fault("type", "Give type file, or none, with a file.") }
    content = MessageContent(json, &fields)
    if kind != .file, json.kind == .object, content.message == nil, json["message"] == nil {
      fields.fault("message", "Give the text of the message.")
    }
    file = received.map { SendRequest.file(&fields, $0) } ?? SendRequest.file(&fields, kind)
    parent = fields.text("parent_message_id")
    if let parent, MessageRef(parent) == nil {
      fields.fault("parent_message_id", "Give a message_id.")
    }
    isReplyToChannel = fields.flag("is_reply_to_channel")
    isSilent = fields.flag("is_silent")
    let name = fields.text("request_id")
    requestID = name.flatMap { RequestID($0) }
    if name != nil, requestID == nil { fields.fault("request_id", RequestName.hint) }
    blocksOnFailure = fields.flag("block_on_failure")
    try fields.end()
  }

  /// The fields of a file that came with the request: its own name and type, unless others are given.
  private static func file(_ fields: inout BodyFields, _ received: ReceivedFile) -> File {
    for name in ["file_url", "file_size"] where fields.text(name) != nil {
      fields.fault(name, "Leave it out: the file came with the request.")
    }
    var file = File()
    file.name = fields.text("file_name").map { FileLabel.name($0) } ?? received.name
    file.mime = fields.text("file_mime").map { FileLabel.type($0) } ?? received.mime
    file.size = Int64(received.incoming.size)
    return file
  }

  private static func file(_ fields: inout BodyFields, _ kind: Kind) -> File {
    var file = File()
    file.url = fields.text("file_url")
    file.name = fields.text("file_name")
    file.mime = fields.text("file_mime")
    file.size = fields.number("file_size", Limits.fileBytes)
    for (name, text) in [("file_url", file.url), ("file_name", file.name), ("file_mime", file.mime)] {
      if let text, text.count > SendingLimit.fileCharacters {
        fields.fault(name, "Give at most \(SendingLimit.fileCharacters) characters.")
      }
    }
    if kind != .file {
      if !file.isEmpty { fields.fault("type", "Give type file with the fields of a file.") }
    } else if !WebLink.isLink(file.url ?? "") {
      fields.fault("file_url", "Give the file's url, which begins with http:// or https://.")
    }
    return file
  }

  /// The request's fields as a JSON object with the contract's names, always in the same order. `parent`:
  /// names the message that it replies to.
  func params(parent: String?) -> [UInt8] {
    var json = JSONWriter()
    json.beginObject()
    json.field("type", kind.rawValue)
    content.write(into: &json)
    if let url = file.url { json.field("file_url", url) }
    if let name = file.name { json.field("file_name", name) }
    if let mime = file.mime { json.field("file_mime", mime) }
    if let size = file.size { json.field("file_size", size) }
    if let parent { json.field("parent_message_id", parent) }
    if isReplyToChannel { json.field("is_reply_to_channel", true) }
    if isSilent { json.field("is_silent", true) }
    if blocksOnFailure { json.field("block_on_failure", true) }
    json.endObject()
    return json.finish().array
  }

  /// The request for the outbox. `parent`: the confirmed message it replies to.
  func unsent(
    _ name: RequestName, in url: ChannelURL, parent: Int64?, _ received: SpooledFile?, _ caller: Caller,
    lifetime: Int64
  ) -> UnsentRequest {
    // The same fields with another file are another request.
    let path =
      [url.text] + (received.map { [$0.hash.map { String($0, radix: 16) }.joined(separator: ".")] } ?? [])
    var request = UnsentRequest(
      requestID: name.id, kind: received == nil ? .message : .file,
      content: OutboxContent(params: params(parent: parent.map { String($0) }), body: []),
      contentHash: ContentHash.of("sendMessage", path, params(parent: self.parent)))
    if let received {
      request.file = SentFile(received, name: file.name ?? "", mime: file.mime ?? "")
      request.upload = .needed
    }
    request.blocksOnFailure = blocksOnFailure
    request.textLength = content.message?.count ?? 0
    request.isAdmin = caller.scopes.contains(.admin)
    request.needsAdmin = kind == .admin
    request.sender = caller.user
    request.lifetime = lifetime
    return request
  }
}

/// The body of editMessage, checked.
struct EditRequest: Sendable {
  let content: MessageContent
  let requestID: RequestID?

  /// Reads a body; throws the fields at fault.
  init(_ json: JSONValue) throws(InvalidFields) {
    var fields = BodyFields(json)
    content = MessageContent(json, &fields)
    let name = fields.text("request_id")
    requestID = name.flatMap { RequestID($0) }
    if name != nil, requestID == nil { fields.fault("request_id", RequestName.hint) }
    if json.kind == .object, content.isEmpty { fields.fault("body", "Give at least one field to change.") }
    try fields.end()
  }

  /// The fields to change, as a JSON object with the contract's names in one order.
  var params: [UInt8] {
    var json = JSONWriter()
    json.beginObject()
    content.write(into: &json)
    json.endObject()
    return json.finish().array
  }
}
