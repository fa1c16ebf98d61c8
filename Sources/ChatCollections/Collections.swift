import ChatCache
import ChatModel
import Glibc
import JSON
import Platform
import Synchronization

/// All open views: opened, found again, moved, disposed of, kept over a start (B22).
package final class Collections: Sendable {
  /// Limits and times of views.
  package struct Settings: Sendable {
    /// A view nobody asked for during this long is disposed of, ms.
    package var idleMilliseconds: Int64 = 3_600_000
    /// Views of one user.
    package var perUser = 200
    /// Parked requests in all.
    package var parked = 20_000
    /// Parked requests of one user.
    package var parkedPerUser = 12_000
    /// How many rows a view holds.
    package var bound = WindowBound()

    /// The defaults.
    package init() {}
  }

  private enum View {
    case messages(MessageCollection)
    case channels(ChannelCollection)
  }

  /// The data.
  package let cache: Cache
  /// Whoever keeps it in step.
  package let interest: any Interest
  /// Who waits for what.
  package let feed: Feed
  private let settings: Settings
  private let views = Guarded<[String: View]>([:])
  private let removed = Atomic<UInt64>(0)

  /// No views yet.
  package init(cache: Cache, interest: any Interest, settings: Settings = Settings()) {
    self.cache = cache
    self.interest = interest
    self.settings = settings
    feed = Feed(cache, mostParked: settings.parked, mostPerUser: settings.parkedPerUser)
  }

  /// Takes up the views that were stored, and begins to wake those who wait.
  package func start() throws {
    for stored in try cache.read({ try $0.collections() }) {
      guard let view = read(stored, cache.cursor.epoch) else { continue }
      views.withLock { $0[stored.id] = view }
      // One that has seen nothing yet still waits for its first answer.
      if case .messages(let messages) = view {
        interest.opened(messages.openView, isOwedAnswer: !messages.range.hasSeenAnything)
      }
    }
    feed.start { [weak self] in self?.disposeIdle() }
  }

  /// Ends the waking.
  package func stop() { feed.stop() }

  private func read(_ stored: StoredCollection, _ epoch: UInt64) -> View? {
    do {
      switch stored.kind {
      case .messages:
        guard let channel = stored.channel else { return nil }
        let request = try stored.query.withUnsafeBytes { try JSONParser().parse($0, MessageViewRequest.init) }
        return .messages(
          MessageCollection(
            id: stored.id, user: stored.user, userID: stored.userID, channel: channel.key, request: request,
            range: try LoadedRange(stored: stored.loaded), accessedAt: stored.accessedAt, epoch: epoch,
            bound: settings.bound))
      case .channels:
        let query = try stored.query.withUnsafeBytes { try JSONParser().parse($0) { try ChannelQuery($0) } }
        return .channels(
          ChannelCollection(
            id: stored.id, user: stored.user, userID: stored.userID, query: query,
            window: try ChannelWindow(stored: stored.loaded), accessedAt: stored.accessedAt, epoch: epoch,
            bound: settings.bound))
      }
    } catch {
      Log.line(.warning, "collection_unreadable", ["id": .text(stored.id)])
      return nil
    }
  }

  private func remove(_ id: String) {
    views.withLock { $0[id] = nil }
    removed.wrappingAdd(1, ordering: .releasing)
  }

  // MARK: Finding

  /// How many views have ended: while it stays, whoever was found is there still.
  package var removals: UInt64 { removed.load(ordering: .acquiring) }

  /// Whether the user has a view of that name, of either kind.
  package func isOpen(_ id: String, of user: UserID) -> Bool {
    switch views.withLock({ $0[id] }) {
    case .messages(let view)?: view.userID == user
    case .channels(let view)?: view.userID == user
    case nil: false
    }
  }

  /// The user's message collection of that name; being asked for keeps it alive.
  package func messages(_ id: String, of user: UserID) throws -> MessageCollection {
    guard case .messages(let view)? = views.withLock({ $0[id] }), view.userID == user else {
      throw ViewError.notFound
    }
    guard try isKept(view.user, of: user) else {
      remove(id)
      interest.closed(view: id, in: view.url)
      throw ViewError.notFound
    }
    guard view.epoch == cache.cursor.epoch else { return try begunAnew(view) }
    let now = cache.clock.wallMilliseconds()
    view.state.withLock { $0.accessedAt = now }
    // Nothing is told of a view before it is within its bound: however it grew, and whoever read for it.
    try bound(view, growsNewer: true)
    return view
  }

  /// The user's channel collection of that name; being asked for keeps it alive.
  package func channels(_ id: String, of user: UserID) throws -> ChannelCollection {
    guard case .channels(let view)? = views.withLock({ $0[id] }), view.userID == user else {
      throw ViewError.notFound
    }
    guard try isKept(view.user, of: user) else {
      remove(id)
      throw ViewError.notFound
    }
    let now = cache.clock.wallMilliseconds()
    let epoch = cache.cursor.epoch
    let isStored = view.state.withLock { state in
      state.accessedAt = now
      return state.epoch == epoch
    }
    if !isStored {
      let stored = view.stored
      try cache.accept { try Collections.store(stored, $0) }
      view.state.withLock { $0.epoch = epoch }
    }
    try bound(view)
    return view
  }

  /// Whether the user's data is still what it was when a view was opened: with it go its views (B4).
  private func isKept(_ key: UserKey, of user: UserID) throws -> Bool {
    try cache.userKey(of: user) == key
  }

  /// Everything was cleared since the view was opened (B58): under the same name it begins anew, in the
  /// channel as it is known now.
  private func begunAnew(_ view: MessageCollection) throws -> MessageCollection {
    let anew = try make(view.request, of: view.userID, named: view.id)
    let stored = stored(anew)
    try cache.accept { try Collections.store(stored, $0) }
    views.withLock { $0[view.id] = .messages(anew) }
    removed.wrappingAdd(1, ordering: .releasing)
    interest.opened(anew.openView, isOwedAnswer: true)
    return anew
  }

  /// What the view of that channel needs to know beside the cache.
  package func sight(_ url: ChannelURL) -> Sight {
    Sight(
      link: interest.link, interval: interest.pollInterval(of: url), now: cache.clock.wallMilliseconds(),
      head: cache.cursor.sequence)
  }

  // MARK: Opening

  private func checkLimit(_ user: UserID, isReplacing: Bool = false) throws(ViewError) {
    let mine = views.withLock { views in
      views.values.count { view in
        switch view {
        case .messages(let messages): messages.userID == user
        case .channels(let channels): channels.userID == user
        }
      }
    }
    guard mine < settings.perUser + (isReplacing ? 1 : 0) else { throw ViewError.tooMany(settings.perUser) }
  }

  /// Opens a view of a channel's messages: durable, and known to the sync worker once it is told. `name`:
  /// from `name()`. `replacing`: a view that is disposed of in the same step.
  package func openMessages(
    _ request: MessageViewRequest, of userID: UserID, named name: String,
    replacing old: MessageCollection? = nil
  ) throws -> MessageCollection {
    try checkLimit(userID, isReplacing: old != nil)
    let view = try make(request, of: userID, named: name)
    let stored = stored(view)
    let (oldName, oldChannel) = (old?.id, old?.channel)
    try cache.accept { writer in
      if let oldName {
        // Two that replace the same view at once: one of them comes too late.
        guard try writer.dispose(collection: oldName, channel: oldChannel) else { throw ViewError.notFound }
      }
      try Collections.store(stored, writer)
    }
    views.withLock { views in
      if let oldName { views[oldName] = nil }
      views[view.id] = .messages(view)
    }
    if let old {
      removed.wrappingAdd(1, ordering: .releasing)
      interest.closed(view: old.id, in: old.url)
      feed.end(old.id)
    }
    return view
  }

  /// A view of what the cache has of a channel now.
  private func make(
    _ request: MessageViewRequest, of userID: UserID, named name: String
  ) throws -> MessageCollection {
    let now = cache.clock.wallMilliseconds()
    let url = ChannelURL(request.channelURL)
    let sight = sight(url)
    let epoch = cache.cursor.epoch
    return try cache.read { reader in
      guard let user = try reader.userKey(of: userID), let channel = try reader.view(of: url, for: user)
      else {
        throw ViewError.channelNotFound
      }
      guard channel.isJoined else { throw ViewError.notJoined }
      let view = MessageCollection(
        id: name, user: user, userID: userID, channel: channel.channel, request: request,
        range: LoadedRange(), accessedAt: now, epoch: epoch, bound: settings.bound,
        isBounded: true)
      view.settle(from: view.range, to: try view.withFirstPage(view.range, reader, channel, sight))
      return view
    }
  }

  private func stored(_ view: MessageCollection) -> StoredCollection {
    StoredCollection(
      id: view.id, user: view.user, userID: view.userID, kind: .messages, channel: (view.channel, view.url),
      query: view.request.json, loaded: view.range.stored,
      accessedAt: view.state.withLock { $0.accessedAt })
  }

  /// Stores a view; an error where its user or channel went with all that was cached meanwhile (B58).
  private static func store(_ view: StoredCollection, _ writer: CacheWriter) throws {
    guard try writer.reader.holdsGround(of: view) else {
      throw view.channel == nil ? ViewError.notFound : ViewError.channelNotFound
    }
    try writer.open(view)
  }

  /// Opens a view of the user's channels.
  package func openChannels(_ query: ChannelQuery, of userID: UserID) throws -> ChannelCollection {
    try checkLimit(userID)
    let now = cache.clock.wallMilliseconds()
    guard let user = try cache.userKey(of: userID) else { throw ViewError.notFound }
    let view = ChannelCollection(
      id: Collections.name(), user: user, userID: userID, query: query, window: .closed, accessedAt: now,
      epoch: cache.cursor.epoch, bound: settings.bound, isBounded: true)
    let stored = view.stored
    try cache.accept { try Collections.store(stored, $0) }
    views.withLock { $0[view.id] = .channels(view) }
    return view
  }

  // MARK: Ending

  /// Forgets a view.
  package func dispose(_ view: MessageCollection) throws {
    let (id, channel) = (view.id, view.channel)
    _ = try cache.accept { try $0.dispose(collection: id, channel: channel) }
    remove(id)
    interest.closed(view: id, in: view.url)
    feed.end(id)
  }

  /// Forgets a view.
  package func dispose(_ view: ChannelCollection) throws {
    let id = view.id
    _ = try cache.accept { try $0.dispose(collection: id, channel: nil) }
    remove(id)
    feed.end(id)
  }

  /// Forgets the views nobody asked for (B22).
  package func disposeIdle() {
    let limit = cache.clock.wallMilliseconds() - settings.idleMilliseconds
    noteAccess()
    for view in views.withLock({ Array($0.values) }) {
      do {
        switch view {
        case .messages(let messages) where messages.state.withLock({ $0.accessedAt }) < limit:
          try dispose(messages)
        case .channels(let channels) where channels.state.withLock({ $0.accessedAt }) < limit:
          try dispose(channels)
        default: continue
        }
      } catch {
        Log.line(.warning, "collection_not_disposed", ["reason": .text("\(error)")])
      }
    }
  }

  /// Writes down when views were last asked for, so that a start does not take them for idle.
  private func noteAccess() {
    var times: [String: Int64] = [:]
    for (id, view) in views.withLock({ $0 }) {
      switch view {
      case .messages(let messages): times[id] = messages.state.withLock { $0.accessedAt }
      case .channels(let channels): times[id] = channels.state.withLock { $0.accessedAt }
      }
    }
    let all = times
    cache.write({ try $0.setAccessed(all) }) { result in
      if case .failure(let error) = result {
        Log.line(.warning, "collection_access_not_stored", ["reason": .text("\(error)")])
      }
    }
  }

  /// A name for a view, that nobody guesses: 96 random bits.
  package static func name() -> String {
    var words = SystemRandomNumberGenerator()
    let digits = [words.next(), words.next() & 0xFFFF_FFFF].map { String($0, radix: 36) }
    return "c" + digits.joined()
  }
}
