import ChatCache
import ChatCollections
import ChatModel
import MicroHTTP
import Platform

/// One read of a user's channel list. Before it, channels are fetched while the list is incomplete and the
/// cache does not fill the page (B11, B15), then the members that the filters need.
final class ChannelFetch {
  private let context: CollectionContext
  private let request: Request
  private let caller: Caller
  private let preferences: Preferences
  private let endsAt: UInt64
  private let asksFirst: Bool
  private let query: ChannelQuery
  private var pages = 0

  /// `asksFirst`: while the list is incomplete, the upstream is asked once even if the cache fills the page.
  init(
    _ context: CollectionContext, _ request: Request, _ caller: Caller, _ query: ChannelQuery, asksFirst: Bool
  ) {
    self.context = context
    self.query = query
    self.request = request
    self.caller = caller
    self.asksFirst = asksFirst
    preferences = Preferences(request)
    endsAt = Clock.system.monotonicNanoseconds() + UInt64(preferences.milliseconds) * 1_000_000
  }

  /// Fetches what is needed from the upstream, then runs `body`. `isFull`: whether the cache fills the page,
  /// whatever the upstream would add.
  func answer(
    isFull: @escaping (CacheReader) throws -> Bool, _ body: @escaping (Preferences) throws -> Outcome
  ) throws -> Outcome {
    let now = Clock.system.monotonicNanoseconds()
    guard now < endsAt, try isNeeded(isFull) else { return try withMembers(body) }
    pages += 1
    let left = Int((endsAt - now) / 1_000_000)
    return context.route.wait(request, of: caller, within: left) {
      context.route.syncRequests.fetchChannels(of: caller.user, within: left, then: $0)
    } then: { [self] outcome in
      try outcome == .stored ? answer(isFull: isFull, body) : withMembers(body)
    }
  }

  private func withMembers(_ body: @escaping (Preferences) throws -> Outcome) throws -> Outcome {
    let fetch = MemberFetch(context.route, request, caller, preferences)
    return try fetch.answer(of: fetch.wanted(query)) { [preferences] _ in try body(preferences) }
  }

  private func isNeeded(_ isFull: (CacheReader) throws -> Bool) throws -> Bool {
    switch preferences.mode {
    case .never: return false
    case .always where pages == 0: return true
    case .always, .whereNeeded:
      guard pages < ChatModel.Limits.upstreamPagesPerRequest else { return false }
      return try context.run {
        try context.route.cache.read { reader in
          guard let user = try reader.cachedUser(caller.user), !user.isSynced else { return false }
          return try (asksFirst && pages == 0) || !isFull(reader)
        }
      }
    }
  }
}
