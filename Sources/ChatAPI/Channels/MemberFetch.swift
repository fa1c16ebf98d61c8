import ChatCache
import ChatModel
import MicroHTTP
import Platform

/// Members that a request asks for or filters on: lists that are not known whole are fetched first, within
/// the request's wait (B8, B15).
struct MemberFetch {
  /// How long a list of members is answered without asking whether it is still the same (ms).
  static let freshMilliseconds: Int64 = 600_000

  private let context: RouteContext
  private let request: Request
  private let caller: Caller
  private let preferences: Preferences

  init(_ context: RouteContext, _ request: Request, _ caller: Caller, _ preferences: Preferences) {
    self.context = context
    self.request = request
    self.caller = caller
    self.preferences = preferences
  }

  /// Runs `body` after the members of `urls` were fetched, or after the wait; `status`: how the rest of the
  /// answer came about.
  func answer(
    of urls: [ChannelURL], status: CacheStatus = .hit, _ body: @escaping (CacheStatus) throws -> Outcome
  ) throws -> Outcome {
    guard !urls.isEmpty, preferences.mode != .never else { return try body(status) }
    let within = preferences.milliseconds
    return context.wait(request, of: caller, within: within) {
      context.syncRequests.fetchMembers(of: urls, within: within, then: $0)
    } then: { outcome in
      try body(CacheStatus(outcome))
    }
  }

  /// The channel, where its list of members is to be asked for.
  func wanted(_ url: ChannelURL) throws -> [ChannelURL] {
    if preferences.mode == .always { return [url] }
    let list = try context.read { try $0.memberList(of: url) }
    let isFresh = context.cache.moment - list.shownAt < MemberFetch.freshMilliseconds
    return list.isComplete && isFresh ? [] : [url]
  }

  /// The channels without whose members the query cannot be answered truthfully, as many as one request asks
  /// for.
  func wanted(_ query: ChannelQuery) throws -> [ChannelURL] {
    guard query.asksMembers, preferences.mode != .never else { return [] }
    return try context.read { reader in
      guard let user = try reader.cachedUser(caller.user) else { return [] }
      return try reader.withUnknownMembers(query, user, limit: ChatModel.Limits.upstreamPagesPerRequest)
    }
  }
}
