import ChatModel
import JSON
import Platform

/// Writes the bodies of the Sendbird-compatible Platform API from the contract's parameters.
///
/// Fields that are not named here are not sent. A field of a wrong type throws the rejection that a server
/// would answer, and nothing is sent, because a message without its parent or its mentions would be another
/// message. A field that is null counts as absent.
enum OutgoingBody {
  /// The largest parameters, in bytes: a text of 5 000 characters, its data, and 1 000 mentioned users fit.
  static let bytes = 1 << 20

  /// `POST …/messages`: the request id goes along as the idempotency key, and sending marks as read.
  static func send(_ message: OutgoingMessage) throws -> [UInt8] {
    try object(message.params) { params, out in
      let kind = try kind(params)
      out.name("message_type")
      out.value(plain: word(kind))
      if kind != .admin { out.field("user_id", message.user.text) }
      try common(params, &out)
      if kind == .file { try file(params, isWithMessage: message.file != nil, &out) }
      if let parent = try parent(params) { out.field("parent_message_id", parent) }
      try copy(flag: "is_silent", params, &out)
      try copy(flag: "is_reply_to_channel", params, &out)
      out.field("dedup_id", message.requestID.text)
      if kind != .admin { out.field("mark_as_read", true) }
    }
  }

  /// The body of `send` and its file as a form: texts as they are, everything else as JSON.
  static func form(_ body: [UInt8], _ file: OutgoingFile) throws -> [HTTPRequest.Part] {
    var parts: [HTTPRequest.Part] = []
    try body.withUnsafeBytes { raw in
      try JSONParser.parse(raw) { root in
        for (name, value) in root.fields {
          let bytes: [UInt8]
          if let text = value.utf8 {
            bytes = Array(text)
          } else {
            var json = JSONWriter()
            json.value(value)
            bytes = json.finish().array
          }
          parts.append(HTTPRequest.Part(String(decoding: name, as: UTF8.self), .bytes(bytes)))
        }
      }
    }
    return parts + [part(file)]
  }

  /// The file as a part of a form.
  static func part(_ file: OutgoingFile) -> HTTPRequest.Part {
    HTTPRequest.Part("file", .file(path: file.path, name: file.name, mime: file.mime))
  }

  /// `PUT …/messages/{id}`
  static func edit(_ edit: OutgoingEdit) throws -> [UInt8] {
    guard edit.kind != .other else { throw refusal(400111, "A message of an unknown type cannot be edited.") }
    return try object(edit.params) { params, out in
      out.name("message_type")
      out.value(plain: word(edit.kind))
      if edit.kind != .admin { out.field("user_id", edit.user.text) }
      try common(params, &out)
    }
  }

  /// `POST …/reactions`
  static func reaction(_ key: String, of user: UserID) -> [UInt8] {
    written { out in
      out.beginObject()
      out.field("user_id", user.text)
      out.field("reaction", key)
      out.endObject()
    }
  }

  /// `PUT …/mark_as_read`
  static func readMark(of user: UserID) -> [UInt8] {
    written { out in
      out.beginObject()
      out.field("user_id", user.text)
      out.endObject()
    }
  }

  private static func object(
    _ params: [UInt8], _ body: (JSONValue, inout JSONWriter) throws -> Void
  ) throws -> [UInt8] {
    guard params.count <= bytes else { throw refusal(400110, "The parameters are too long.") }
    do {
      return try params.withUnsafeBytes { raw in
        try JSONParser.parse(raw) { root in
          guard root.kind == .object else { throw refusal(400103, "The parameters must be an object.") }
          return try written { out in
            out.beginObject()
            try body(root, &out)
            out.endObject()
          }
        }
      }
    } catch let error as JSONError {
      throw refusal(400403, "The parameters are not JSON: \(error).")
    }
  }

  /// The fields that both a send and an edit may have.
  private static func common(_ params: JSONValue, _ out: inout JSONWriter) throws {
    for name in ["message", "data", "custom_type", "mention_type"] as [StaticString] {
      try copy(text: name, as: name, params, &out)
    }
    if let users = try list("mentioned_user_ids", params) {
      out.name("mentioned_user_ids")
      out.beginArray()
      for user in users { out.value(utf8: try text(user, "mentioned_user_ids")) }
      out.endArray()
    }
    if let metaarray = try list("metaarray", params) { try self.metaarray(metaarray, &out) }
  }

  private static func metaarray(_ items: JSONValue.Items, _ out: inout JSONWriter) throws {
    out.name("sorted_metaarray")
    out.beginArray()
    for item in items {
      guard item.kind == .object, let key = item["key"] else {
        throw refusal(400111, "\"metaarray\" must hold keys and their values.")
      }
      out.beginObject()
      out.name("key")
      out.value(utf8: try text(key, "key"))
      out.name("value")
      out.beginArray()
      for value in try list("value", item) ?? .none { out.value(utf8: try text(value, "value")) }
      out.endArray()
      out.endObject()
    }
    out.endArray()
  }

  /// The fields of a file. `isWithMessage`: the file is sent with the message, and has no url yet.
  private static func file(
    _ params: JSONValue, isWithMessage: Bool, _ out: inout JSONWriter
  ) throws {
    guard isWithMessage || given("file_url", params) != nil else {
      throw refusal(400105, "\"file_url\" is missing.")
    }
    try copy(text: "file_url", as: "url", params, &out)
    try copy(text: "file_name", as: "file_name", params, &out)
    try copy(text: "file_mime", as: "file_type", params, &out)
    if let size = given("file_size", params) {
      guard let bytes = size.int64, bytes >= 0 else {
        throw refusal(400101, "\"file_size\" must be a number of bytes.")
      }
      out.field("file_size", bytes)
    }
  }

  private static func parent(_ params: JSONValue) throws -> Int64? {
    guard let value = given("parent_message_id", params) else { return nil }
    guard let id = value.string.flatMap({ Int64($0) }), id > 0 else {
      throw refusal(400111, "\"parent_message_id\" must be a message's id.")
    }
    return id
  }

  private static func kind(_ params: JSONValue) throws -> MessageQuery.Kind {
    switch params.text("type") {
    case "user": .user
    case "file": .file
    case "admin": .admin
    default: throw refusal(400111, "\"type\" must be user, file or admin.")
    }
  }

  private static func word(_ kind: MessageQuery.Kind) -> StaticString {
    switch kind {
    case .user: "MESG"
    case .file: "FILE"
    case .admin: "ADMM"
    // Never written: sends and edits of other kinds are refused before.
    case .other: ""
    }
  }

  private static func copy(
    text name: StaticString, as wireName: StaticString, _ params: JSONValue, _ out: inout JSONWriter
  ) throws {
    guard let value = given(name, params) else { return }
    out.name(wireName)
    out.value(utf8: try text(value, name))
  }

  private static func copy(flag name: StaticString, _ params: JSONValue, _ out: inout JSONWriter) throws {
    guard let value = given(name, params) else { return }
    guard let flag = value.bool else { throw refusal(400104, "\"\(name)\" must be true or false.") }
    out.field(name, flag)
  }

  private static func text(_ value: JSONValue, _ name: StaticString) throws -> UnsafeRawBufferPointer {
    guard let utf8 = value.utf8 else { throw refusal(400100, "\"\(name)\" must be a text.") }
    return utf8
  }

  private static func list(_ name: StaticString, _ params: JSONValue) throws -> JSONValue.Items? {
    guard let value = given(name, params) else { return nil }
    guard value.kind == .array else { throw refusal(400102, "\"\(name)\" must be a list.") }
    return value.items
  }

  private static func given(_ name: StaticString, _ params: JSONValue) -> JSONValue? {
    params[name].flatMap { $0.isNull ? nil : $0 }
  }

  private static func refusal(_ code: Int, _ message: String) -> UpstreamError {
    .rejection(code: code, message: message)
  }
}
