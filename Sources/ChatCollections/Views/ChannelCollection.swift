import ChatCache
import ChatModel
import JSON
import Platform

/// One open channel list: the window that its client has loaded, and what the client knows (B9).
package final class ChannelCollection: Sendable {
  /// The view's id.
  package let id: String
  /// The user who opened the view.
  package let user: UserKey
  /// The same user's id.
  package let userID: UserID
  /// The query with which the client opened the view.
  package let query: ChannelQuery
  /// Looks up one channel of the list.
  let lookup: ChannelLookup

  /// The topics that requests for its events subscribe to.
  package let topics: ChangeSubscriptions.Topics
  /// The most channels that the window may hold.
  let bound: WindowBound

  struct State: Sendable {
    /// The loaded window, and how much of it the table `collection` has.
    var held: HeldWindow<ChannelWindow>
    /// Channels by url. The version is a hash of the object that the client got.
    var known = ClientKnowledge<ExactText>()
    var accessedAt: Int64
    /// The identity of the log when the view was last stored.
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
    lookup = ChannelLookup(query, of: user, named: userID)
    self.bound = bound
    topics = ChangeSubscriptions.Topics(of: user, collections: [id], user: user, isOfView: true)
    state = Guarded(
      State(held: HeldWindow(window, isBounded: isBounded), accessedAt: accessedAt, epoch: epoch))
  }

  /// The view as the table `collection` stores it.
  var stored: StoredCollection {
    let (window, accessedAt) = state.withLock { ($0.window, $0.accessedAt) }
    return StoredCollection(
      id: id, user: user, userID: userID, kind: .channels, query: query.json, loaded: window.stored,
      accessedAt: accessedAt)
  }

  /// The loaded window.
  package var window: ChannelWindow { state.withLock { $0.window } }

  /// Notes that the client was answered up to `sequence` and then has `shown`.
  func answered(at sequence: Int64, _ shown: ClientKnowledge<ExactText>.Shown) {
    state.withLock { state in
      state.known.answered(at: sequence, shown)
      if shown.exceeds(bound.rows) { state.isBounded = false }
    }
  }

  /// A page that was loaded.
  private struct Loaded: ~Copyable {
    let items: ByteBuffer
    /// The token of the next page; nil: nothing follows, or nothing more fits into the view.
    let next: String?
  }

  /// Loads the page after a key, or the first one. It has no more channels than fit into the view (B22).
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
      shown[channel.url] = channel.hash
      last = channel.key
      return true
    }
    // The end of the list is proven only if all of the user's channels were listed.
    let more = hasMore || !user.isSynced
    let (key, rows) = (last, shown)
    let isWithin = state.withLock { state in
      // A page after a key that was cut off meanwhile would leave a hole before it.
      if let after, !state.window.contains(after) { return false }
      state.window.take(last: key ?? after, hasMore: more)
      state.known.loaded(rows)
      return true
    }
    guard isWithin else { throw ViewError.foreignEdge("after") }
    return Loaded(items: json.finish(), next: more && rows.count < room ? edge(last ?? after) : nil)
  }

  /// Loads the first page, before the view is stored for the first time.
  func begin(_ reader: CacheReader) throws {
    guard let user = try reader.cachedUser(userID) else { throw ViewError.notFound }
    _ = try load(reader, user, after: nil)
  }

  /// The whole view as its opening answers it: all channels inside the window. Notes what the client then
  /// knows.
  package func snapshot(_ reader: CacheReader, at cursor: EventCursor) throws -> ByteBuffer {
    guard let user = try reader.cachedUser(userID) else { throw ViewError.notFound }
    let cursor = cursor.notAfter(user.heldAt)
    var items = JSONWriter(capacity: 8192)
    var shown: [ExactText: Int64] = [:]
    let window = window
    try reader.eachListed(query, of: user) { channel in
      guard window.contains(channel.key) else { return false }
      items.splice(channel.object.bytes)
      shown[channel.url] = channel.hash
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

  /// Writes whether more channels may follow, and the token for loading them.
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

  /// Whether the cache has a whole page of that list after a key, whatever the upstream would add.
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
}
