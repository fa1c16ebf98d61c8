import ChatCache
import ChatModel
import JSON
import TestSupport

/// A chat server for the model of the views: its messages, and the ways in which they come into a cache, also
/// late and outdated.
struct ModelUpstream {
  /// A message as it is upstream.
  struct Message {
    let id: Int64
    let createdAt: Int64
    let sender: String
    let kind: MessageQuery.Kind
    let customType: String
    let parent: Int64?
    let parentAt: Int64?
    let isInChannel: Bool
    var request = ""
    /// The text that its sender wrote through the cache; nil for all others.
    var text: String?
    /// The id of the request that sent it through the cache, whether the message names it or not.
    var asked = ""
    var edition: Int64 = 0
    var hasReaction = false

    var record: MessageRecord {
      var json = JSONWriter()
      json.name("message_id")
      json.value(quoting: id)
      json.field("request_id", request)
      json.field("message", text ?? "edition \(edition)")
      json.field("created_at", createdAt)
      return MessageRecord(
        messageID: id, createdAt: createdAt, updatedAt: edition, kind: kind, isSilent: id % 9 == 0,
        isReplyToChannel: isInChannel, parentID: parent, parentAt: parentAt, sender: sender,
        customType: customType, requestID: request, mentions: id % 8 == 0 ? .everybody : .nobody,
        body: json.finish().array,
        reactions: hasReaction ? Array("[{\"key\":\"smile\"}]".utf8) : nil,
        parent: parent.map { Array("{\"message_id\":\"\($0)\"}".utf8) })
    }
  }

  let url: ChannelURL
  private(set) var messages: [Int64: Message] = [:]
  /// The position of each message ever sent.
  private(set) var positions: [Int64: Position] = [:]
  private var nextID: Int64 = 1
  private var changed: Set<Int64> = []
  private var deleted: Set<Int64> = []
  /// Pages that were requested and have not come yet.
  var late: [MessageListing] = []
  /// Messages sent before the cache cleared this channel. Clients may still have them, until the cache has
  /// that part of the channel again (B58).
  private(set) var letGo: Set<Int64> = []

  init(_ url: ChannelURL) { self.url = url }

  var inOrder: [Message] {
    messages.values.sorted { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) }
  }

  /// A plain message with that id and time.
  static func message(_ id: Int64, at createdAt: Int64) -> MessageRecord {
    Message(
      id: id, createdAt: createdAt, sender: "bob", kind: .user, customType: "", parent: nil, parentAt: nil,
      isInChannel: false
    ).record
  }

  // MARK: Changes upstream

  mutating func send(_ random: inout SeededRandom) -> Message {
    let id = nextID
    nextID += 1
    // Some messages share a millisecond, so that there are ties.
    let parent = random.chance(25) ? messages.values.randomElement(using: &random) : nil
    let message = Message(
      id: id, createdAt: 1_000 + id / 3 * 10, sender: ["alice", "bob", "carol"].pick(&random),
      kind: [.user, .user, .file, .admin].pick(&random), customType: ["", "", "x", "y"].pick(&random),
      parent: parent?.id, parentAt: parent?.createdAt, isInChannel: random.chance(50))
    messages[id] = message
    positions[id] = message.record.position
    return message
  }

  mutating func edit(_ random: inout SeededRandom) -> Message? {
    guard let id = messages.keys.sorted().randomElement(using: &random) else { return nil }
    if random.chance(30) {
      messages[id]?.hasReaction.toggle()
    } else {
      messages[id]?.edition += 1
      messages[id]?.text = nil
    }
    changed.insert(id)
    return messages[id]
  }

  /// Sends a message for a request of the outbox. `isNamed`: whether the message has the request's id.
  mutating func send(_ text: String, from sender: String, request: String, isNamed: Bool) -> Message {
    let id = nextID
    nextID += 1
    var message = Message(
      id: id, createdAt: 1_000 + id / 3 * 10, sender: sender, kind: .user, customType: "", parent: nil,
      parentAt: nil, isInChannel: false, request: isNamed ? request : "")
    message.text = text
    message.asked = request
    messages[id] = message
    positions[id] = message.record.position
    return message
  }

  /// Changes a message by `body`; nil if it does not exist.
  mutating func change(_ id: Int64, _ body: (inout Message) -> Void) -> Message? {
    guard messages[id] != nil else { return nil }
    messages[id]?.edition += 1
    body(&messages[id]!)
    changed.insert(id)
    return messages[id]
  }

  /// Deletes a message, if it exists.
  mutating func delete(_ id: Int64) {
    guard messages.removeValue(forKey: id) != nil else { return }
    changed.remove(id)
    deleted.insert(id)
  }

  mutating func delete(_ random: inout SeededRandom) -> Int64? {
    guard let id = messages.keys.sorted().randomElement(using: &random) else { return nil }
    messages[id] = nil
    changed.remove(id)
    deleted.insert(id)
    return id
  }

  /// The changelog since its last request.
  mutating func changes() -> UpstreamChanges<MessageRecord, Int64> {
    defer { (changed, deleted) = ([], []) }
    return UpstreamChanges(
      updated: changed.sorted().compactMap { messages[$0]?.record }, deleted: deleted.sorted(),
      hasMore: false,
      next: SyncToken("t\(nextID)"), unreadable: 0)
  }

  /// Notes that the cache cleared all messages.
  mutating func clear() { letGo = Set(positions.keys) }

  // MARK: Listings

  func newest(_ limit: Int, askedAt: Int64) -> MessageListing {
    listing(MessageWindow(.newest, older: limit, newer: 0), askedAt)
  }

  func around(_ position: Position, older: Int, newer: Int, askedAt: Int64) -> MessageListing {
    listing(MessageWindow(.time(position.createdAt), older: older, newer: newer), askedAt)
  }

  func before(_ position: Position, _ limit: Int, askedAt: Int64) -> MessageListing {
    listing(MessageWindow(.time(position.createdAt), older: limit, newer: 0), askedAt)
  }

  /// The upstream's answer: rows at the anchor's time count for the requested side.
  private func listing(_ window: MessageWindow, _ askedAt: Int64) -> MessageListing {
    let all = inOrder
    var rows: [Message] = []
    switch window.anchor {
    case .newest: rows = Array(all.suffix(window.older))
    case .message: break
    case .time(let time):
      let at = all.filter { $0.createdAt == time }
      let older = all.filter { $0.createdAt < time }
      let newer = all.filter { $0.createdAt > time }
      if window.newer == 0 {
        rows = Array((older + at).suffix(window.older))
      } else {
        rows = Array(older.suffix(window.older)) + at + Array(newer.prefix(window.newer))
      }
    }
    return MessageListing(window: window, rows: rows.map(\.record), isWhole: true, askedAt: askedAt)
  }
}

extension Array {
  func pick(_ random: inout SeededRandom) -> Element {
    self[Int.random(in: 0..<count, using: &random)]
  }
}
