import ChatCollections
import ChatModel
import JSON
import MicroHTTP

/// The content fields of a body that sends or edits a message. Fields that the body lacks are nil.
struct MessageContent: Sendable {
  /// Whether a message mentions single users or the whole channel.
  enum MentionType: String, CaseIterable { case users, channel }

  /// One entry of `metaarray`.
  struct Metadata: Sendable {
    let key: String
    let values: [String]
  }

  var message: String?
  var data: String?
  var customType: String?
  var mentionType: MentionType?
  var mentioned: [String]?
  var metaarray: [Metadata]?

  /// Whether nothing was given.
  var isEmpty: Bool {
    message == nil && data == nil && customType == nil && mentionType == nil && mentioned == nil
      && metaarray == nil
  }

  /// Takes the fields out of a body.
  init(_ json: JSONValue, _ fields: inout BodyFields) {
    message = fields.text("message")
    if message?.isEmpty ?? false { fields.fault("message", "Give a text that is not empty.") }
    data = fields.text("data")
    customType = fields.text("custom_type")
    if let customType, customType.count > SendingLimit.customTypeCharacters {
      fields.fault("custom_type", "Give at most \(SendingLimit.customTypeCharacters) characters.")
    }
    mentionType = fields.word("mention_type", MentionType.self)
    if json["mentioned_user_ids"] == nil {
      _ = fields.list("mentioned_user_ids")
    } else {
      mentioned = fields.list("mentioned_user_ids")
    }
    metaarray = MessageContent.metaarray(json, &fields)
  }

  private static func metaarray(_ json: JSONValue, _ fields: inout BodyFields) -> [Metadata]? {
    fields.known("metaarray")
    guard let given = json["metaarray"] else { return nil }
    guard given.kind == .array else {
      fields.fault("metaarray", "Give an array of objects with a key and a value.")
      return nil
    }
    var entries: [Metadata] = []
    for item in given.items {
      guard entries.count < SendingLimit.metaarrayEntries else {
        fields.fault("metaarray", "Give at most \(SendingLimit.metaarrayEntries) entries.")
        break
      }
      let field = "metaarray[\(entries.count)]"
      guard item.kind == .object else {
        fields.fault(field, "Give an object with a key and a value.")
        entries.append(Metadata(key: "", values: []))
        continue
      }
      var entry = BodyFields(item, prefix: field)
      let key = entry.text("key") ?? ""
      if key.isEmpty { entry.fault("key", "Give a text that is not empty.") }
      let values = entry.list("value")
      entries.append(Metadata(key: key, values: values))
      do throws(InvalidFields) { try entry.end() } catch {
        for fault in error.faults { fields.fault(fault.field, fault.detail) }
      }
    }
    return entries
  }

  /// Writes the fields that were given, always in the same order.
  func write(into json: inout JSONWriter) {
    if let message { json.field("message", message) }
    if let data { json.field("data", data) }
    if let customType { json.field("custom_type", customType) }
    if let mentionType { json.field("mention_type", mentionType.rawValue) }
    if let mentioned {
      json.name("mentioned_user_ids")
      json.beginArray()
      for user in mentioned { json.value(user) }
      json.endArray()
    }
    guard let metaarray else { return }
    json.name("metaarray")
    json.beginArray()
    for entry in metaarray {
      json.beginObject()
      json.field("key", entry.key)
      json.name("value")
      json.beginArray()
      for value in entry.values { json.value(value) }
      json.endArray()
      json.endObject()
    }
    json.endArray()
  }
}

/// Limits of a message's fields.
enum SendingLimit {
  /// Characters of a custom type.
  static let customTypeCharacters = 128
  /// Entries of one `metaarray`.
  static let metaarrayEntries = 100
  /// Characters of a file's url, name or type.
  static let fileCharacters = 2048
  /// Characters of a reaction's key.
  static let reactionCharacters = 191
}
