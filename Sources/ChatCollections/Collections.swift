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

  enum View {
    case messages(MessageCollection)
    case channels(ChannelCollection)
  }

  /// The data.
  package let cache: Cache
  /// Whoever keeps it in step.
  package let syncRequests: any SyncRequests
  /// Who waits for what.
  package let subscriptions: ChangeSubscriptions
  let settings: Settings

  /// The views there are.
  struct Views {
    /// By name.
    var open = TextMap<View>()
    /// How many each user is opening: they count against the limit while their commits are under way.
    var opening: [UserID: Int] = [:]
  }
  let views = Guarded(Views())
  private let removed = Atomic<UInt64>(0)
  /// When each view was last asked for, as it is written down.
  let noted = Guarded(TextMap<Int64>())

  /// No views yet.
  package init(cache: Cache, syncRequests: any SyncRequests, settings: Settings = Settings()) {
    self.cache = cache
    self.syncRequests = syncRequests
    self.settings = settings
    subscriptions = ChangeSubscriptions(
      cache, mostParked: settings.parked, mostPerUser: settings.parkedPerUser)
  }

  /// Takes up the views that were stored, and begins to wake those who wait.
  package func start() throws {
    for stored in try cache.read({ try $0.collections() }) {
      guard let view = read(stored, cache.cursor.epoch) else { continue }
      views.withLock { $0.open[stored.id] = view }
      // One that was promised an answer, or has seen nothing yet, still waits for it.
      if case .messages(let messages) = view {
        var open = messages.openView
        open.wasToldOfFailure = stored.owes == .success
        syncRequests.opened(open, isOwedAnswer: stored.owes != .nothing || !messages.range.hasSeenAnything)
      }
    }
    subscriptions.start { [weak self] in self?.disposeIdle() }
  }

  /// Ends the waking.
  package func stop() { subscriptions.stop() }

  private func read(_ stored: StoredCollection, _ epoch: UInt64) -> View? {
    // How long nobody could ask is not how long nobody asked, and the clock may have been set meanwhile.
    let started = cache.clock.wallMilliseconds()
    do {
      switch stored.kind {
      case .messages:
        guard let channel = stored.channel else { return nil }
        let request = try stored.query.withUnsafeBytes { try JSONParser.parse($0, MessageViewRequest.init) }
        return .messages(
          MessageCollection(
            id: stored.id, user: stored.user, userID: stored.userID, channel: channel.key, request: request,
            range: try LoadedRange(stored: stored.loaded), accessedAt: started, epoch: epoch,
            bound: settings.bound))
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

  /// A view ended, or another replaced it.
  func noteRemoval() { removed.wrappingAdd(1, ordering: .releasing) }

  // MARK: Finding

  /// How many views have ended: while it stays, whoever was found is there still.
  package var removals: UInt64 { removed.load(ordering: .acquiring) }

  /// Whether the user has a view of that name, of either kind.
  package func isOpen(_ id: String, of user: UserID) -> Bool {
    switch views.withLock({ $0.open[id] }) {
    case .messages(let view)?: view.userID == user
    case .channels(let view)?: view.userID == user
    case nil: false
    }
  }

  /// The user's message collection of that name; being asked for keeps it alive. Ask `isReady` before
  /// anything is told of it.
  package func messages(_ id: String, of user: UserID) throws -> MessageCollection {
    guard case .messages(let view)? = views.withLock({ $0.open[id] }), view.userID == user else {
      throw ViewError.notFound
    }
    guard try isKept(view.user, of: user) else {
      remove(id)
      syncRequests.closed(view: id, in: view.url)
      throw ViewError.notFound
    }
    let now = cache.clock.wallMilliseconds()
    view.state.withLock { $0.accessedAt = now }
    return view
  }

  /// The user's channel collection of that name; being asked for keeps it alive. Ask `isReady` before
  /// anything is told of it.
  package func channels(_ id: String, of user: UserID) throws -> ChannelCollection {
    guard case .channels(let view)? = views.withLock({ $0.open[id] }), view.userID == user else {
      throw ViewError.notFound
    }
    guard try isKept(view.user, of: user) else {
      remove(id)
      throw ViewError.notFound
    }
    let now = cache.clock.wallMilliseconds()
    view.state.withLock { $0.accessedAt = now }
    return view
  }

  /// Whether the user's data is still what it was when a view was opened: with it go its views (B4).
  private func isKept(_ key: UserKey, of user: UserID) throws -> Bool {
    try cache.userKey(of: user) == key
  }

  /// What the view of that channel needs to know beside the cache.
  package func viewContext(_ url: ChannelURL) -> ViewContext {
    ViewContext(
      link: syncRequests.link, interval: syncRequests.pollInterval(of: url),
      now: cache.clock.wallMilliseconds(),
      head: cache.cursor.sequence)
  }

  /// A name for a view, that nobody guesses: 96 random bits.
  package static func name() -> String {
    var words = SystemRandomNumberGenerator()
    let digits = [words.next(), words.next() & 0xFFFF_FFFF].map { String($0, radix: 36) }
    return "c" + digits.joined()
  }
}
