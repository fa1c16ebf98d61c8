import ChatCache
import ChatModel
import MicroHTTP
import Platform

/// Fetches the members that a request asks for or filters on, if the stored lists are incomplete. The request
/// waits for them at most as long as it allows (B8, B15).
struct MemberFetch {
  /// For so long after its last fetch, a complete list of members is answered from the cache (ms).
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

  /// Fetches the members of `urls`, then runs `body` with the outcome. If the fetch takes longer than the
  /// request waits, `body` runs without the members. `status`: the outcome if no members have to be fetched.
  func answer(
    of urls: [ChannelURL], status: CacheStatus = .hit, _ body: @escaping (CacheStatus) throws -> Outcome
  ) throws -> Outcome {
    guard !urls.isEmpty, preferences.mode != .never else { return try body(status) }
    let within = preferences.milliseconds
    return context.wait(request, of: caller, within: within) {
      context.syncRequests.fetchMembers(of: urls, for: caller.user, within: within, then: $0)
    } then: { outcome in
      try body(CacheStatus(outcome))
    }
  }

  /// The channel, if its list of members has to be fetched; otherwise none.
  func wanted(_ url: ChannelURL) throws -> [ChannelURL] {
    if preferences.mode == .always { return [url] }
    let list = try context.read { try $0.memberList(of: url) }
    let isFresh = context.cache.moment - list.shownAt < MemberFetch.freshMilliseconds
    return list.isComplete && isFresh ? [] : [url]
  }

  /// The channels whose members the query needs and the cache lacks, at most as many as one request fetches.
  func wanted(_ query: ChannelQuery) throws -> [ChannelURL] {
    guard query.asksMembers, preferences.mode != .never else { return [] }
    return try context.read { reader in
      guard let user = try reader.cachedUser(caller.user) else { return [] }
      return try reader.withUnknownMembers(query, user, limit: ChatModel.Limits.upstreamPagesPerRequest)
    }
  }
}
