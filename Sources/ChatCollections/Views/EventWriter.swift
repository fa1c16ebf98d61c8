import ChatCache
import ChatModel
import JSON
import Platform

/// Collects the events of one answer. Entries are added in log order and written in groups: first deleted,
/// then added, then updated ones, each group with its source (B9, B49).
struct EventWriter: ~Copyable {
  /// What an entry tells. The order is that of the answer.
  enum Kind: Int, CaseIterable { case deleted, added, updated }

  private struct Group {
    let kind: Kind
    let source: ChangeSource
    let status: String?
    /// The entries with commas between them.
    var items: [UInt8]
  }

  private var groups: [Group] = []
  private var leading: [[UInt8]] = []
  private var others: [[UInt8]] = []
  private(set) var entries = 0
  private(set) var bytes = 0

  /// Whether one more change may not fit into an answer of that many bytes.
  func isFull(_ room: Int) -> Bool {
    entries + Limits.changeMessages > Limits.eventEntries || bytes + Limits.changeRoom > room
  }
  var isEmpty: Bool { groups.isEmpty && leading.isEmpty && others.isEmpty }

  mutating func add(_ kind: Kind, _ source: ChangeSource, status: String? = nil, _ item: [UInt8]) {
    item.withUnsafeBytes { add(kind, source, status: status, $0) }
  }

  /// Adds an entry: a JSON value.
  mutating func add(
    _ kind: Kind, _ source: ChangeSource, status: String? = nil, _ item: UnsafeRawBufferPointer
  ) {
    entries += 1
    bytes += item.count
    let same = groups.firstIndex { $0.kind == kind && $0.source == source && $0.status == status }
    if let same {
      groups[same].items.append(UInt8(ascii: ","))
      groups[same].items.append(contentsOf: item)
    } else {
      groups.append(Group(kind: kind, source: source, status: status, items: Array(item)))
    }
  }

  /// Adds a whole event: an object.
  mutating func add(event: [UInt8]) {
    entries += 1
    bytes += event.count
    others.append(event)
  }

  /// Adds a whole event that comes before the entries.
  mutating func add(first event: [UInt8]) {
    entries += 1
    bytes += event.count
    leading.append(event)
  }

  /// Removes the entries of confirmed messages, because another event tells all of them.
  mutating func forgetConfirmed() {
    groups.removeAll { $0.status == "succeeded" }
    leading = []
  }

  /// The events as the beginning of an answer. `names` are those of deleted, added, updated.
  func joined(
    _ names: (StaticString, StaticString, StaticString), objects: StaticString, references: StaticString,
    collection: String?
  ) -> EventsBody {
    var body = EventsBody(room: bytes + 160 * (groups.count + others.count))
    for event in leading { event.withUnsafeBytes { body.add($0) } }
    for kind in Kind.allCases {
      for group in groups where group.kind == kind {
        body.json.beginObject()
        body.json.name("type")
        body.json.value(plain: kind == .deleted ? names.0 : kind == .added ? names.1 : names.2)
        EventWriter.write(group.source, into: &body.json)
        if let status = group.status { body.json.field("sending_status", status) }
        if let collection { body.json.field("collection_id", collection) }
        body.json.name(kind == .deleted ? references : objects)
        body.json.beginArray()
        group.items.withUnsafeBytes { body.json.splice(fields: $0) }
        body.json.endArray()
        body.json.endObject()
      }
    }
    for event in others { event.withUnsafeBytes { body.add($0) } }
    return body
  }

  static func write(_ source: ChangeSource, into json: inout JSONWriter) {
    json.name("source")
    json.value(plain: source.text)
    json.field("is_realtime", source.isRealtime)
  }

  /// How far these members of the channel have read. A member whose position is not known has no event.
  static func read(
    _ members: [ExactText], in view: ChannelView, _ reader: CacheReader, collection: String?
  ) throws -> [[UInt8]] {
    guard !members.isEmpty else { return [] }
    let moments = try reader.readPositions(of: members, in: view.channel)
    return members.compactMap { member in
      guard let moment = moments[member] else { return nil }
      return event("channel.read", .read, collection: collection) { json in
        json.field("channel_url", view.url.text)
        json.field("user_id", member.text)
        json.field("read_at", moment)
      }
    }
  }

  /// How much of an unsent message's file is uploaded.
  static func progress(_ change: Change, _ url: ChannelURL, collection: String?) -> [UInt8] {
    event("upload.progress", nil, collection: collection) { json in
      json.field("channel_url", url.text)
      json.name("progress")
      json.beginObject()
      (change.detail ?? []).withUnsafeBytes { json.splice(fields: $0) }
      json.endObject()
    }
  }

  /// One event: its type, source and view, then the fields that `body` writes.
  static func event(
    _ type: StaticString, _ source: ChangeSource?, collection: String?, _ body: (inout JSONWriter) -> Void
  ) -> [UInt8] {
    var json = JSONWriter(capacity: 512)
    json.beginObject()
    json.name("type")
    json.value(plain: type)
    if let source { write(source, into: &json) } else { json.field("is_realtime", false) }
    if let collection { json.field("collection_id", collection) }
    body(&json)
    json.endObject()
    return json.finish().array
  }
}

/// The events that a view or a feed has for one poll, and where the next poll goes on.
package struct ViewAnswer: ~Copyable {
  /// The events.
  package let body: EventsBody
  /// The sequence of the log up to which they go.
  package let end: Int64
  /// Whether more follows at once.
  package let hasMore: Bool
  /// Whether there is nothing to tell.
  package let isEmpty: Bool
  /// The answer key, if other views may take the answer.
  package let key: AnswerKey?
  /// Moves the view's window as this answer needs it; nil: the stored window serves. The moved window has to
  /// be stored before the client gets an answer, which is made again from it.
  package let move: (() -> Void)?
  /// Keeps what the client knows from now on, and how the window moved. Call it once, with the sequence of
  /// the cursor that the client gets.
  package let settle: (_ sequence: Int64) -> Void

  /// The events alone.
  package consuming func releaseBody() -> EventsBody { body }

  init(
    body: consuming EventsBody, end: Int64, hasMore: Bool, isEmpty: Bool,
    key: AnswerKey? = nil, move: (() -> Void)? = nil, settle: @escaping (_ sequence: Int64) -> Void
  ) {
    self.body = body
    self.end = end
    self.hasMore = hasMore
    self.isEmpty = isEmpty
    self.key = key
    self.move = move
    self.settle = settle
  }
}

/// What a view needs beside the cache.
package struct ViewContext: Sendable {
  /// The link to the upstream.
  package let link: LinkStatus
  /// The poll interval of the channel, ms.
  package let interval: Int64
  /// Now, wall ms.
  package let now: Int64
  /// The user's connection; nil: another feed of the same answer tells of it.
  package var connection: ClientConnection?
  /// The sequence at which the answer ends at the latest: the log's end before the snapshot was taken, the
  /// end of another feed's answer, or the end of a part of a wave. The next answer tells what came later.
  package var head: Int64
  /// Whether an answer of events ends at `head`, and not at the last change before it that concerns the view.
  package var endsAtHead = false
}

/// Why a view cannot be answered.
package enum ViewError: Error, Sendable {
  /// There is no such view for this user.
  case notFound
  /// For this user there is no such channel.
  case channelNotFound
  /// Everything was cleared while the view was opened, so its channel may just not be listed again yet.
  case cleared
  /// The user is invited and has not joined.
  case notJoined
  /// The user has too many views.
  case tooMany(Int)
  /// The token in that field is of no edge of this view.
  case foreignEdge(String)
}
