import ChatCache
import ChatModel
import JSON
import Platform

@testable import ChatCollections

/// Objects by name, each as its JSON text.
typealias Objects = [String: String]

extension JSONValue {
  /// The value as text.
  var text: String {
    var json = JSONWriter()
    json.value(self)
    return String(decoding: json.finish().array, as: UTF8.self)
  }

  func objects(_ list: String, by name: String) -> Objects {
    var found: Objects = [:]
    for item in field(named: list)?.items ?? JSONValue.Items() {
      found[item.field(named: name)?.string ?? "?"] = item.text
    }
    return found
  }
}

extension Objects {
  /// Sets a member's read position in a channel, as `channel.read` gives it. False: the channel is not shown.
  mutating func take(readMark event: JSONValue) -> Bool {
    let url = event["channel_url"]?.string ?? "?"
    guard let object = self[url] else { return false }
    self[url] = Objects.set(
      event["user_id"]?.string ?? "?", to: event["read_at"]?.int64 ?? 0, in: Array(object.utf8))
    return true
  }

  /// Whether these are the channels of a fresh snapshot, except `updated_at` after a read mark: no event has
  /// that field alone, so a client does not know it.
  func shows(_ fresh: Objects) -> Bool {
    keys == fresh.keys
      && fresh.allSatisfy { url, object in
        guard let own = self[url], own != object else { return true }
        return own.hasSuffix(#""updated_at":null}"#) && object.hasPrefix(own.dropLast(5))
      }
  }

  private static func set(_ member: String, to moment: Int64, in object: [UInt8]) -> String {
    var json = JSONWriter()
    let isObject = object.withUnsafeBytes { bytes in
      JSONParser().read(bytes) { channel in
        json.beginObject()
        for (name, value) in channel.fields {
          json.name(name)
          if name.elementsEqual("updated_at".utf8) {
            json.null()
            continue
          }
          guard name.elementsEqual("read_receipts".utf8) else {
            json.value(value)
            continue
          }
          var receipts: [String: Int64] = [member: moment]
          for (user, known) in value.fields where !user.elementsEqual(member.utf8) {
            receipts[String(decoding: user, as: UTF8.self)] = known.int64 ?? 0
          }
          json.beginObject()
          for (user, moment) in receipts.sorted(by: { $0.key < $1.key }) {
            Array(user.utf8).withUnsafeBytes { json.name($0) }
            json.value(moment)
          }
          json.endObject()
        }
        json.endObject()
        return true
      } ?? false
    }
    precondition(isObject, "a channel is an object")
    return String(decoding: json.finish().array, as: UTF8.self)
  }
}

/// The content of a view of a chat, as its client has it.
struct ChatContent {
  /// Confirmed messages by id, and unsent ones by request.
  var shown: Objects
  var unsent: Objects
  var gaps: Objects

  /// Reads the content of a whole view.
  init(_ body: borrowing ByteBuffer) throws {
    (shown, unsent, gaps) = try JSONParser().parse(body.bytes) { json in
      (
        json.objects("messages", by: "message_id"),
        json.objects("pending", by: "request_id").merging(json.objects("failed", by: "request_id")) { $1 },
        json.objects("gaps", by: "id")
      )
    }
  }
}

/// A client of a chat, which knows only the answers that it got.
struct ChatClient {
  let id: String
  let user: UserID
  let index: Int
  var cursor: Int64
  var content: ChatContent
  var isOver = false
  /// The state before the last answer, for answers that are lost.
  var earlier: (cursor: Int64, content: ChatContent)?

  mutating func take(page: borrowing ByteBuffer) throws {
    let (rows, gaps) = try JSONParser().parse(page.bytes) {
      ($0.objects("items", by: "message_id"), $0.objects("gaps", by: "id"))
    }
    content.shown.merge(rows) { $1 }
    content.gaps = gaps
    earlier = nil
  }

  mutating func take(_ events: borrowing EventsBody) throws {
    let text = [UInt8(ascii: "[")] + events.array + [UInt8(ascii: "]")]
    var client = self
    try text.withUnsafeBytes { bytes in
      try JSONParser().parse(bytes) { json in for event in json.items { client.take(event: event) }
      }
    }
    self = client
  }

  private mutating func take(event: JSONValue) {
    let isConfirmed = event["sending_status"]?.string ?? "succeeded" == "succeeded"
    switch event["type"]?.string ?? "" {
    case "messages.added", "messages.updated":
      if isConfirmed {
        confirm(event)
      } else {
        content.unsent.merge(event.objects("messages", by: "request_id")) { $1 }
      }
    case "messages.deleted":
      for item in event["message_refs"]?.items ?? JSONValue.Items() {
        if let message = item["message_id"]?.string { content.shown[message] = nil }
        if let request = item["request_id"]?.string { content.unsent[request] = nil }
      }
    case "messages.replaced":
      content.shown = [:]
      confirm(event)
    case "channel.deleted": isOver = true
    default: break
    }
    takeGaps(of: event)
  }

  /// A list of gaps in an event replaces all gaps of the view; a single gap replaces the one with its id.
  private mutating func takeGaps(of event: JSONValue) {
    if event["gaps"] != nil {
      content.gaps = event.objects("gaps", by: "id")
    } else if let gap = event["gap"], let id = gap["id"]?.string {
      content.gaps[id] = gap["state"]?.string == "closed" ? nil : gap.text
    }
  }
}

extension ChatClient {
  /// Adds confirmed messages. Each replaces the unsent message with its request id.
  private mutating func confirm(_ event: JSONValue) {
    for item in event["messages"]?.items ?? JSONValue.Items() {
      content.shown[item["message_id"]?.string ?? "?"] = item.text
      if let request = item["request_id"]?.string, !request.isEmpty { content.unsent[request] = nil }
    }
  }
}

/// A client of a list of channels.
struct ListClient {
  let id: String
  let user: UserID
  var cursor: Int64
  var shown: Objects
  var earlier: (cursor: Int64, shown: Objects)?

  static func read(_ body: borrowing ByteBuffer) throws -> Objects {
    try JSONParser().parse(body.bytes) { $0.objects("channels", by: "channel_url") }
  }

  mutating func take(_ events: borrowing EventsBody) throws {
    let text = [UInt8(ascii: "[")] + events.array + [UInt8(ascii: "]")]
    var shown = shown
    try text.withUnsafeBytes { bytes in
      try JSONParser().parse(bytes) { json in
        for event in json.items {
          switch event["type"]?.string ?? "" {
          case "channels.added", "channels.updated":
            shown.merge(event.objects("channels", by: "channel_url")) { $1 }
          case "channels.deleted":
            for url in event["channel_urls"]?.items ?? JSONValue.Items() {
              shown[url.string ?? "?"] = nil
            }
          case "channel.read": _ = shown.take(readMark: event)
          default: break
          }
        }
      }
    }
    self.shown = shown
  }
}
