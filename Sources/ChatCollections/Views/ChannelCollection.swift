import ChatCache
import ChatModel
import JSON
import Platform

/// One open channel list: how far it was loaded, and what its client knows (B9).
package final class ChannelCollection: Sendable {
  /// Its name.
  package let id: String
  /// Whose it is.
  package let user: UserKey
  /// The same, by name.
  package let userID: UserID
  /// What it shows.
  package let query: ChannelQuery

  /// What requests that follow it wait for.
  package let topics: ChangeSubscriptions.Topics
  /// How many channels it holds at most.
  let bound: WindowBound

  struct State: Sendable {
    /// How far it was loaded, and what of that is stored.
    var held: HeldWindow<ChannelWindow>
    /// Channels by name; what stands for a version is a hash of the object the client got.
    var known = ClientKnowledge<ExactText>()
    var accessedAt: Int64
    /// The identity of the log under which it was stored last.
    var epoch: UInt64

    var window: ChannelWindow {
      get { held.now }
      set { held.now = newValue }
    }
    var isBounded: Bool {
      get { held.isBounded }
      set { held.isBounded = newValue }
    }
  }
  let state: Guarded<State>

  init(
    id: String, user: UserKey, userID: UserID, query: ChannelQuery, window: ChannelWindow, accessedAt: Int64,
    epoch: UInt64, bound: WindowBound = WindowBound(), isBounded: Bool = false
  ) {
    self.id = id
    self.user = user
    self.userID = userID
    self.query = query
    self.bound = bound
    topics = ChangeSubscriptions.Topics(of: user, collections: [id], user: user)
    state = Guarded(
      State(held: HeldWindow(window, isBounded: isBounded), accessedAt: accessedAt, epoch: epoch))
  }

  /// As it is stored.
  var stored: StoredCollection {
    let (window, accessedAt) = state.withLock { ($0.window, $0.accessedAt) }
    return StoredCollection(
      id: id, user: user, userID: userID, kind: .channels, query: query.json, loaded: window.stored,
      accessedAt: accessedAt)
  }

  /// How far it was loaded.
  package var window: ChannelWindow { state.withLock { $0.window } }

  /// The client was answered up to `sequence`, at which it has this.
  func answered(at sequence: Int64, _ shown: ClientKnowledge<ExactText>.Shown) {
    state.withLock { state in
      state.known.answered(at: sequence, shown)
      if shown.versions.count > bound.rows { state.isBounded = false }
    }
  }

  /// A page that was loaded.
  private struct Loaded: ~Copyable {
    let items: ByteBuffer
    /// The edge after it; nil where nothing follows, or nothing more fits into the view.
    let next: String?
  }

  /// The next page after a key, or the first one: its channels, with commas between them. No more than fit
  /// into the view (B22).
  private func load(
    _ reader: CacheReader, _ user: CachedUser, after: ChannelListKey?, limit: Int? = nil
  ) throws -> Loaded {
    let room = try room(reader, user, after: after)
    let limit = min(limit ?? query.limit, room)
    var json = JSONWriter(capacity: 8192)
    var shown: [ExactText: Int64] = [:]
    var last: ChannelListKey?
    var hasMore = false
    try reader.eachListed(query, of: user, after: after, limit: limit + 1) { channel in
      guard shown.count < limit else {
        hasMore = true
        return false
      }
      json.splice(channel.object.bytes)
      shown[channel.url] = ChannelCollection.hash(channel.object.bytes)
      last = channel.key
      return true
    }
    // The end is proven only where all of the user's channels are known.
    let more = hasMore || !user.isSynced
    let (key, rows) = (last, shown)
    let isWithin = state.withLock { state in
      // What was let go of meanwhile is not taken in again with a hole before it.
      if let after, !state.window.contains(after) { return false }
      state.window.take(last: key ?? after, hasMore: more)
      state.known.loaded(rows)
      return true
    }
    guard isWithin else { throw ViewError.foreignEdge("after") }
    return Loaded(items: json.finish(), next: more && rows.count < room ? edge(last ?? after) : nil)
  }

  /// Takes in the first page, before the view is stored for the first time.
  func begin(_ reader: CacheReader) throws {
    guard let user = try reader.cachedUser(userID) else { throw ViewError.notFound }
    _ = try load(reader, user, after: nil)
  }

  /// The view now: everything inside the window.
  package func snapshot(_ reader: CacheReader, at cursor: EventCursor) throws -> ByteBuffer {
    guard let user = try reader.cachedUser(userID) else { throw ViewError.notFound }
    var items = JSONWriter(capacity: 8192)
    var shown: [ExactText: Int64] = [:]
    let window = window
    try reader.eachListed(query, of: user) { channel in
      guard window.contains(channel.key) else { return false }
      items.splice(channel.object.bytes)
      shown[channel.url] = ChannelCollection.hash(channel.object.bytes)
      return true
    }
    answered(at: cursor.sequence, ClientKnowledge.Shown(all: shown))
    var json = JSONWriter(capacity: items.buffer.count + 1024)
    json.beginObject()
    json.field("id", id)
    json.name("query")
    query.json.withUnsafeBytes { json.splice($0) }
    let text = items.finish()
    json.name("channels")
    json.beginArray()
    json.splice(fields: text.bytes)
    json.endArray()
    writeEnd(window, hasRoom: shown.count < bound.rows, into: &json)
    json.field("complete", try reader.isComplete(query, of: user))
    json.field("cursor", cursor)
    json.endObject()
    return json.finish()
  }

  /// Whether more may follow, and the token that leads to it.
  func writeEnd(_ window: ChannelWindow, hasRoom: Bool, into json: inout JSONWriter) {
    json.field("has_next", window.hasMore)
    json.name("next")
    if window.hasMore, hasRoom { json.value(edge(window.boundary)) } else { json.null() }
  }

  /// The page after an edge (B17).
  package func more(_ reader: CacheReader, after: ChannelListKey?, limit: Int?) throws -> ByteBuffer {
    guard let user = try reader.cachedUser(userID) else { throw ViewError.notFound }
    let page = try load(reader, user, after: after, limit: limit)
    var json = JSONWriter(capacity: page.items.count + 256)
    json.beginObject()
    json.name("items")
    json.beginArray()
    json.splice(fields: page.items.bytes)
    json.endArray()
    json.field("has_next", window.hasMore)
    json.name("next")
    if let next = page.next { json.value(next) } else { json.null() }
    json.field("complete", try reader.isComplete(query, of: user))
    json.endObject()
    return json.finish()
  }

  /// Whether the cache has a whole page of that list after a key, whatever upstream would add to it.
  package static func isFull(
    _ query: ChannelQuery, of user: UserID, after: ChannelListKey?, _ reader: CacheReader
  ) throws -> Bool {
    guard let user = try reader.cachedUser(user) else { return false }
    var count = 0
    try reader.eachListed(query, of: user, after: after, limit: query.limit) { _ in
      count += 1
      return true
    }
    return count >= query.limit
  }

  /// Tells contents apart (FNV-1a); two that differ look alike once in 2^64.
  static func hash(_ bytes: UnsafeRawBufferPointer) -> Int64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    return Int64(bitPattern: hash)
  }
}
