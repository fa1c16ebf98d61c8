import ChatCache
import ChatModel
import Glibc
import JSON
import Platform
import Synchronization

/// All open views: opens, finds, moves and disposes of them, and keeps them over a restart (B22).
package final class Collections: Sendable {
  /// Limits and times of views.
  package struct Settings: Sendable {
    /// The time without a request after which a view is disposed of, ms.
    package var idleMilliseconds: Int64 = 3_600_000
    /// The most views of one user.
    package var perUser = 200
    /// The most parked requests.
    package var parked = 20_000
    /// The most parked requests of one user.
    package var parkedPerUser = 12_000
    /// The most rows of a view.
    package var bound = WindowBound()
    /// When the followers of a chat are woken, if they are many.
    package var waves = Waves.Settings()

    /// The defaults.
    package init() {}
  }

  enum View {
    case messages(MessageCollection)
    case channels(ChannelCollection)
  }

  /// The cache that the views read.
  package let cache: Cache
  /// The port to the sync worker, which keeps the cache in step.
  package let syncRequests: any SyncRequests
  /// The subscriptions of requests that wait for changes.
  package let subscriptions: ChangeSubscriptions
  let settings: Settings

  /// The open views, and the openings under way.
  struct Views {
    /// By id.
    var open = TextMap<View>()
    /// The number that each user is opening: these count against the limit, too.
    var opening: [UserID: Int] = [:]
  }
  let views = Guarded(Views())
  private let removed = Atomic<UInt64>(0)
  /// When each view was last requested, as it is stored.
  let noted = Guarded(TextMap<Int64>())

  /// No views; `start` reads the stored ones.
  package init(cache: Cache, syncRequests: any SyncRequests, settings: Settings = Settings()) {
    self.cache = cache
    self.syncRequests = syncRequests
    self.settings = settings
    subscriptions = ChangeSubscriptions(
      cache, mostParked: settings.parked, mostPerUser: settings.parkedPerUser, waves: settings.waves)
  }

  /// Opens the stored views, and begins to wake subscribers.
  package func start() throws {
    for stored in try cache.read({ try $0.collections() }) {
      guard let view = read(stored, cache.cursor.epoch) else { continue }
      views.withLock { $0.open[stored.id] = view }
      // A view that is owed its first answer, or knows nothing of its channel yet, still gets that answer.
      if case .messages(let messages) = view, isOfThisLog(messages) {
        var open = messages.openView
        open.wasToldOfFailure = stored.owes == .success
        syncRequests.opened(open, isOwedAnswer: stored.owes != .nothing || !messages.range.isBegun)
      }
    }
    subscriptions.start { [weak self] in self?.disposeIdle() }
  }

  /// Stops waking subscribers.
  package func stop() { subscriptions.stop() }

  private func read(_ stored: StoredCollection, _ epoch: UInt64) -> View? {
    // The time before the start does not count as idle, and the clock may have been set meanwhile.
    let started = cache.clock.wallMilliseconds()
    do {
      switch stored.kind {
      case .messages:
        let request = try stored.query.withUnsafeBytes { try JSONParser.parse($0, MessageViewRequest.init) }
        return .messages(
          MessageCollection(
            id: stored.id, user: stored.user, userID: stored.userID, channel: stored.channel?.key ?? .unknown,
            request: request, range: try LoadedRange(stored: stored.loaded), accessedAt: started,
            // Without a channel the view is of an earlier log, and begins anew when it is asked for.
            epoch: stored.channel == nil ? ~epoch : epoch, bound: settings.bound))
      case .channels:
        let query = try stored.query.withUnsafeBytes { try JSONParser.parse($0) { try ChannelQuery($0) } }
        return .channels(
          ChannelCollection(
            id: stored.id, user: stored.user, userID: stored.userID, query: query,
            window: try ChannelWindow(stored: stored.loaded), accessedAt: started, epoch: epoch,
            bound: settings.bound))
      }
    } catch {
      Log.line(.warning, "collection_unreadable", ["id": .text(stored.id)])
      return nil
    }
  }

  func remove(_ id: String) {
    views.withLock { $0.open[id] = nil }
    noteRemoval()
  }

  /// Counts a view that ended, or that another one replaced.
  func noteRemoval() { removed.wrappingAdd(1, ordering: .releasing) }

  // MARK: Finding

  /// How many views have ended. While the number stays the same, a view that was found is still open.
  package var removals: UInt64 { removed.load(ordering: .acquiring) }

  /// Whether the user has a view with that id, of either kind.
  package func isOpen(_ id: String, of user: UserID) -> Bool {
    switch views.withLock({ $0.open[id] }) {
    case .messages(let view)?: view.userID == user
    case .channels(let view)?: view.userID == user
    case nil: false
    }
  }

  /// The user's message collection with that id; the call keeps it from becoming idle. Check `isReady` before
  /// answering from it.
  package func messages(_ id: String, of user: UserID) throws -> MessageCollection {
    guard case .messages(let view)? = views.withLock({ $0.open[id] }), view.userID == user else {
      throw ViewError.notFound
    }
    try asked(for: view)
    return view
  }

  /// Keeps the view from becoming idle. Throws if its user's data was removed.
  package func asked(for view: MessageCollection) throws {
    guard try isKept(view.user, of: view.userID) else {
      remove(view.id)
      syncRequests.closed(view: view.id, in: view.url)
      throw ViewError.notFound
    }
    let now = cache.clock.wallMilliseconds()
    view.state.withLock { $0.accessedAt = now }
  }

  /// The user's channel collection with that id; the call keeps it from becoming idle. Check `isReady` before
  /// answering from it.
  package func channels(_ id: String, of user: UserID) throws -> ChannelCollection {
    guard case .channels(let view)? = views.withLock({ $0.open[id] }), view.userID == user else {
      throw ViewError.notFound
    }
    try asked(for: view)
    return view
  }

  /// Keeps the view from becoming idle. Throws if its user's data was removed.
  package func asked(for view: ChannelCollection) throws {
    guard try isKept(view.user, of: view.userID) else {
      remove(view.id)
      throw ViewError.notFound
    }
    let now = cache.clock.wallMilliseconds()
    view.state.withLock { $0.accessedAt = now }
  }

  /// Whether the user's data was not removed since the view was opened. The views go with the data (B4).
  private func isKept(_ key: UserKey, of user: UserID) throws -> Bool {
    try cache.userKey(of: user) == key
  }

  /// What a view of that channel needs beside the cache.
  package func viewContext(_ url: ChannelURL) -> ViewContext {
    ViewContext(
      link: syncRequests.link, interval: syncRequests.pollInterval(of: url),
      now: cache.clock.wallMilliseconds(),
      head: cache.cursor.sequence)
  }

  /// An id for a view that nobody can guess: 96 random bits.
  package static func name() -> String {
    var words = SystemRandomNumberGenerator()
    let digits = [words.next(), words.next() & 0xFFFF_FFFF].map { String($0, radix: 36) }
    return "c" + digits.joined()
  }
}
