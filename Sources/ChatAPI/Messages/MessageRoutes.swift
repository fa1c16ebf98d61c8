import ChatCache
import ChatModel
import JSON
import MicroHTTP
import Platform

/// Reads messages: a page of a channel's messages, or one message.
enum MessageRoutes {
  static func routes(_ context: RouteContext) -> [Route] {
    [
      Route(.get, "/v1/channels/{channel_url}/messages", operation: "listMessages") { request in
        let page = try MessagePageRequest(context, request)
        return try context.admitted(request) { caller in try page.answer(to: caller) }
      },
      Route(.get, "/v1/channels/{channel_url}/messages/{message_ref}", operation: "getMessage") { request in
        var parameters = Parameters(request)
        let parts = MessageParameters.parts(&parameters)
        try parameters.end()
        return try context.admitted(request) { caller in
          try context.inChannel(request, caller, needsJoined: true) { url, caller in
            try MessageRequest(context, request, url, caller, parts).answer()
          }
        }
      },
    ]
  }
}

/// One request for a page, over all its reads of the cache: read, fetch the missing messages within bounds,
/// read again, answer (B15).
private final class MessagePageRequest {
  private let context: RouteContext
  private let request: Request
  private let url: ChannelURL
  private let parameters: MessageParameters
  private let preferences: Preferences
  private var through: ReadThrough
  private var status = CacheStatus.hit
  /// Whether a fetch of missing messages failed.
  private var hasFailed = false
  /// When the wait for fresh data ends (monotonic ns); set by the first fetch.
  private var endsAt: UInt64?
  /// Whether the channel was looked for upstream.
  private var isSought = false

  init(_ context: RouteContext, _ request: Request) throws {
    self.context = context
    self.request = request
    parameters = try MessageParameters(request)
    url = ChannelURL(request.parameter(0))
    preferences = Preferences(request)
    through = ReadThrough(preferences.mode, rows: parameters.query.limit)
  }

  private enum Look: ~Copyable {
    case answer(Response)
    case fetch(MessageSyncRequest.Stretch)
  }

  /// Answers, or first asks for missing messages. An unknown channel is looked for upstream while the user's
  /// channels are not all listed (B1).
  func answer(to caller: Caller) throws -> Outcome {
    do {
      switch try look(caller, mayFetch: true) {
      case .answer(let response): return .respond(response)
      case .fetch(let stretch): return park(caller, stretch)
      }
    } catch let problem as Problem where problem.code == Problem.channelNotFound.code && !isSought {
      isSought = true
      return try context.inChannel(request, caller) { [self] _, caller in
        try answer(to: caller)
      }
    }
  }

  private func finish(_ caller: Caller) throws -> Outcome {
    switch try look(caller, mayFetch: false) {
    case .answer(let response): return .respond(response)
    case .fetch: throw Problem(SyncError.stopping)
    }
  }

  private func look(_ caller: Caller, mayFetch: Bool) throws -> Look {
    // A thread has coverage of its own, which is read with its rows.
    let thread = parameters.query.filter.parent
    if thread == nil, let access = context.cache.rememberedAccess(of: caller.user, in: url),
      let look = try decide(
        caller, access, access.coverage, mayFetch,
        { page in try context.mapped { try context.cache.read(on: access, page) } })
    {
      return look
    }
    return try context.mapped {
      try context.cache.read(caller.user, in: url) { reader, access in
        guard let access else { throw Problem.channelNotFound }
        let coverage = try thread.map {
          try reader.coverage(of: access.view.channel, thread: $0, over: access.coverage)
        }
        return try decide(
          caller, access, coverage ?? access.coverage, mayFetch, { page in try page(reader) })!
      }
    }
  }

  /// Decides by what the user may see of the channel. `read` reads the rows. If a commit came after `access`
  /// was read, `read` returns nil, and so does this function.
  private func decide(
    _ caller: Caller, _ access: ChannelAccess, _ coverage: Coverage, _ mayFetch: Bool,
    _ read: ((CacheReader) throws -> MessagePage) throws -> MessagePage?
  ) throws -> Look? {
    let view = access.view
    guard view.isJoined else { throw Problem.notJoined }
    try parameters.check()
    let query = parameters.query
    let link = context.syncRequests.link
    let now = context.cache.clock.wallMilliseconds()
    context.cache.noteAccess(view.channel, at: now)
    let ground = MessagePageGround(
      query.anchor, coverage, view, link: link,
      interval: context.syncRequests.pollInterval(of: url), now: now)
    var tag = EntityTag(context.cache.cursor, view)
    tag.add(ground)
    let isAway = link.isOffline || hasFailed
    if isAway, ground.mayBeMissing { tag.add(1) }
    let isKnown = tag.isKnown(to: request)
    // After a failed fetch no 304 is remembered, so that the client's next request asks the upstream again.
    let again = mayFetch && query.filter.parent == nil ? stillHolds(caller, access, ground.tail) : nil
    if isKnown, !mayFetch || isWhole(ground, link) {
      if mayFetch, ground.mayBeMissing, preferences.mode != .never { status = .offline }
      return .answer(context.notModified.answer(tag, status, preferences, again: again))
    }
    let found = try read {
      try $0.page(query, in: view, on: ground, head: MessagePageAnswer.head, pending: access.pending)
    }
    guard let page = found else { return nil }
    if mayFetch, let stretch = through.next(page.found(query.anchor)) {
      // An upstream that is offline is asked only if the client insists.
      guard link.isOffline, preferences.mode == .whereNeeded else { return .fetch(stretch) }
      status = .offline
    }
    if isKnown { return .answer(context.notModified.answer(tag, status, preferences, again: again)) }
    let answer = MessagePageAnswer(page, query, isAway: isAway)
    let body = answer.write(page, cursor: context.cursor(at: view.toldVersion))
    var response = Response.json(body)
    response.describe(tag, status, preferences, vary: context.gate.vary)
    addLinks(answer, to: &response)
    if answer.isCutOff { response.add("Retry-After", Problem.seconds(link.retryAfter ?? 1000)) }
    return .answer(response)
  }

  /// Whether no message would be fetched for the page, as far as that is known before its rows are read.
  private func isWhole(_ ground: MessagePageGround, _ link: LinkStatus) -> Bool {
    switch preferences.mode {
    case .never: true
    case .always: false
    case .whereNeeded: !ground.mayBeMissing || link.isOffline
    }
  }

  /// Whether the answer would be a 304 again: the caller is admitted, nothing was committed, and the tail can
  /// be trusted as far as before. Nothing else decides whether rows are read and which messages are fetched.
  private func stillHolds(_ caller: Caller, _ access: ChannelAccess, _ tail: Tail.State) -> () -> Bool {
    { [context, url] in
      guard context.gate.admitsStill(caller), case .admitted = context.syncRequests.seen(caller.user),
        context.cache.isStill(access)
      else { return false }
      let now = context.cache.clock.wallMilliseconds()
      return tail
        == context.syncRequests.link.judge(
          access.coverage.tail, now: now, interval: context.syncRequests.pollInterval(of: url))
    }
  }

  private func addLinks(_ answer: MessagePageAnswer, to response: inout Response) {
    if answer.previous == nil && answer.next == nil || !PageLink.repeats(request) { return }
    response.addIfItFits("Link") { links in
      let start = links.count
      PageLink.begin(request, into: &links)
      let beginning = start..<links.count
      if let position = answer.previous {
        PageLink.end("before", position, "prev", into: &links)
        if answer.next == nil { return }
        links.append(", ")
        links.append(again: beginning)
      }
      if let position = answer.next { PageLink.end("after", position, "next", into: &links) }
    }
  }

  private func park(_ caller: Caller, _ stretch: MessageSyncRequest.Stretch) -> Outcome {
    let now = Clock.system.monotonicNanoseconds()
    let endsAt = endsAt ?? now + UInt64(preferences.milliseconds) * 1_000_000
    self.endsAt = endsAt
    let left = endsAt > now ? Int((endsAt - now) / 1_000_000) : 0
    let wanted = MessageSyncRequest(url, stretch, thread: parameters.query.filter.parent)
    return context.wait(request, of: caller, within: left) {
      context.syncRequests.fetch(wanted, for: caller.user, within: left, then: $0)
    } then: { [self] outcome in
      status = CacheStatus(outcome)
      if case .failed = outcome { hasFailed = true }
      return try status == .stored ? answer(to: caller) : finish(caller)
    }
  }
}
