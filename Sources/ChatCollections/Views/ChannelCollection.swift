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
  package let topics: Feed.Topics

  struct State: Sendable {
    var window: ChannelWindow
    /// Channels by name; what stands for a version is a hash of the object the client got.
    var known = Known<String>()
    var accessedAt: Int64
    /// The identity of the log under which it was stored last.
    var epoch: UInt64
  }
  let state: Guarded<State>

  init(
    id: String, user: UserKey, userID: UserID, query: ChannelQuery, window: ChannelWindow, accessedAt: Int64,
    epoch: UInt64
  ) {
    self.id = id
    self.user = user
    self.userID = userID
    self.query = query
    topics = Feed.Topics(of: user, user: user)
    state = Guarded(State(window: window, accessedAt: accessedAt, epoch: epoch))
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

  /// A page that was loaded.
  struct Loaded: ~Copyable {
    let items: ByteBuffer
    let isComplete: Bool
    let next: ChannelListKey?
  }

  /// The next page after a place, or the first one: its channels, with commas between them.
  func load(
    _ reader: CacheReader, _ user: CachedUser, after: ChannelListKey?
  ) throws -> Loaded {
    var json = JSONWriter(capacity: 8192)
    var shown: [String: Int64] = [:]
    var last: ChannelListKey?
    var hasMore = false
    try reader.eachListed(query, of: user, after: after, limit: query.limit + 1) { channel in
      guard shown.count < query.limit else {
        hasMore = true
        return
      }
      json.splice(channel.object.bytes)
      shown[channel.url] = ChannelCollection.hash(channel.object.bytes)
      last = channel.place
    }
    let isComplete = try reader.isComplete(query, of: user)
    // The end is proven only where all of the user's channels are known.
    let more = hasMore || !user.isSynced
    let (place, rows) = (last, shown)
    state.withLock {
      $0.window.take(last: place ?? after, hasMore: more)
      $0.known.loaded(rows)
    }
    return Loaded(items: json.finish(), isComplete: isComplete, next: more ? last ?? after : nil)
  }

  /// The view now: everything inside the window (as the opening answers it).
  package func snapshot(
    _ reader: CacheReader, cursor: String, at sequence: Int64, edge: (ChannelListKey) -> String,
    isOpening: Bool
  ) throws -> ByteBuffer {
    guard let user = try reader.cachedUser(userID) else { throw ViewError.notFound }
    if isOpening { _ = try load(reader, user, after: nil) }
    var items = JSONWriter(capacity: 8192)
    var shown: [String: Int64] = [:]
    let window = window
    try reader.eachListed(query, of: user, limit: Limits.windowRows) { channel in
      guard window.contains(channel.place) else { return }
      items.splice(channel.object.bytes)
      shown[channel.url] = ChannelCollection.hash(channel.object.bytes)
    }
    let rows = shown
    state.withLock { $0.known.answered(at: sequence, showing: rows) }
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
    json.field("has_more", window.hasMore)
    json.name("next")
    if window.hasMore, let place = window.boundary { json.value(edge(place)) } else { json.null() }
    json.field("complete", try reader.isComplete(query, of: user))
    json.field("cursor", cursor)
    json.endObject()
    return json.finish()
  }

  /// The page after an edge (B17).
  package func more(
    _ reader: CacheReader, after: ChannelListKey, edge: (ChannelListKey) -> String
  ) throws -> ByteBuffer {
    guard let user = try reader.cachedUser(userID) else { throw ViewError.notFound }
    let page = try load(reader, user, after: after)
    var json = JSONWriter(capacity: page.items.count + 256)
    json.beginObject()
    json.name("channels")
    json.beginArray()
    json.splice(fields: page.items.bytes)
    json.endArray()
    json.field("has_more", window.hasMore)
    json.name("next")
    if let place = page.next { json.value(edge(place)) } else { json.null() }
    json.field("complete", page.isComplete)
    json.endObject()
    return json.finish()
  }

  /// Whether the cache has a whole page of that list after a place, whatever upstream would add to it.
  package static func isFull(
    _ query: ChannelQuery, of user: UserID, after: ChannelListKey?, _ reader: CacheReader
  ) throws -> Bool {
    guard let user = try reader.cachedUser(user) else { return false }
    var count = 0
    try reader.eachListed(query, of: user, after: after, limit: query.limit) { _ in count += 1 }
    return count >= query.limit
  }

  /// Tells contents apart (FNV-1a); two that differ look alike once in 2^64.
  static func hash(_ bytes: UnsafeRawBufferPointer) -> Int64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    return Int64(bitPattern: hash)
  }
}
