import ChatCache
import ChatModel
import JSON
import MicroHTTP
import Platform

/// The user's connection and totals: `/v1/connection`, `/v1/unread`.
enum ConnectionRoutes {
  static func routes(_ context: RouteContext) -> [Route] {
    [
      Route(.put, "/v1/connection", operation: "connect") { request in
        try Parameters(request).end()
        return try connect(context, request)
      },
      Route(.get, "/v1/connection", operation: "getConnection") { request in
        try Parameters(request).end()
        return try context.admitted(request) { caller in
          try .respond(connection(context, caller.user))
        }
      },
      Route(.delete, "/v1/connection", operation: "disconnect") { request in
        var parameters = Parameters(request)
        let clears = parameters.flag("clear")
        let isForced = parameters.flag("force")
        try parameters.end()
        return try disconnect(context, request, clears: clears, isForced: isForced)
      },
      Route(.get, "/v1/unread", operation: "getUnread") { request in
        try Parameters(request).end()
        return try context.admitted(request) { caller in try .respond(unread(context, caller.user)) }
      },
    ]
  }

  /// Connects the user and waits for the first handshake, as long as `Prefer` allows. Without `Prefer`, the
  /// request waits only if the cache does not know the user (B2) or the chat server refused the user (B5).
  private static func connect(_ context: RouteContext, _ request: Request) throws -> Outcome {
    let caller = try context.gate.caller(of: request)
    let preferences = Preferences(request)
    let isKnown = try context.read { try $0.cachedUser(caller.user) != nil }
    let isRefused = context.syncRequests.connection(of: caller.user).error == .userUnknown
    let within =
      isKnown && !isRefused
      ? preferences.wait.map { Int($0) * 1000 } ?? 0
      : max(preferences.milliseconds, RouteContext.firstWordMilliseconds)
    return context.wait(request, of: caller, within: within) {
      context.syncRequests.connect(caller.user, within: within, then: $0)
    } then: { outcome in
      if case .failure(let error) = outcome { throw Problem(error) }
      var response = try connection(context, caller.user)
      preferences.apply(to: &response)
      return .respond(response)
    }
  }

  private static func disconnect(
    _ context: RouteContext, _ request: Request, clears: Bool, isForced: Bool
  ) throws -> Outcome {
    let caller = try context.gate.caller(of: request)
    let told = Guarded<Result<Int64, SyncError>?>(nil)
    let waiter = request.makeWaiter()
    let tell: @Sendable (Result<Int64, SyncError>) -> Void = { outcome in
      told.withLock { $0 = outcome }
      waiter.wake()
    }
    if clears {
      context.syncRequests.forget(caller.user, isForced: isForced, then: tell)
    } else {
      context.syncRequests.disconnect(caller.user) { tell($0.map { 0 }) }
    }
    // A token that expired during the wait is not refused here: the change is made, and a client that gets a
    // refusal would send it again.
    return .park(
      Parking(waiter, milliseconds: DurableWriteLimit.milliseconds) { _ in
        switch told.withLock({ $0 }) {
        case .success(0): return .respond(.empty(204))
        case .success(let unsent): throw Problem.unsentMessages(unsent)
        case .failure(let error): throw Problem(error)
        case nil: throw Problem.outcomeUnknown("Look at GET /v1/connection, or send the request again.")
        }
      })
  }

  /// The `detail` for a user with cached channels, if the upstream cannot be reached.
  private static func detail(of error: SyncError) -> String? {
    guard case .unreachable(let loss, _) = error else { return nil }
    return "The upstream cannot be asked (\(loss.rawValue)): answers come from the cache until it can."
  }

  private static func connection(_ context: RouteContext, _ user: UserID) throws -> Response {
    // The end of the event log: a client that goes on from it gets only later events. It is read before all
    // else: what changes in between is told again, but nothing is missed.
    let cursor = context.cache.cursor
    let link = context.syncRequests.link
    let connection = context.syncRequests.connection(of: user)
    return try context.read { reader in
      let cached = try reader.cachedUser(user)
      let unsent = try cached.map { try reader.unsent(of: $0.key) } ?? (pending: 0, failed: 0)
      var json = JSONWriter()
      json.beginObject()
      json.field("user", user.text)
      json.field("state", connection.state.rawValue)
      if let error = connection.error {
        let problem = Problem(error)
        json.name("error")
        json.beginObject()
        json.field("code", problem.code)
        json.field("detail", detail(of: error) ?? problem.detail)
        json.endObject()
      }
      write(connection.progress, into: &json)
      json.field("poll_interval_ms", connection.pollInterval)
      json.name("unsent")
      json.beginObject()
      json.field("pending", unsent.pending)
      json.field("failed", unsent.failed)
      json.endObject()
      json.name("capabilities")
      json.beginObject()
      for capability in Capability.allCases {
        guard let isOffered = link.capabilities[capability] else { continue }
        json.field(capability.name, isOffered)
      }
      json.endObject()
      json.field("cursor", cursor.notAfter(cached?.heldAt))
      json.endObject()
      var response = Response.json(json.finish())
      response.add("Cache-Control", "no-store")
      return response
    }
  }

  private static func write(_ progress: UserConnection.Progress, into json: inout JSONWriter) {
    json.name("sync")
    json.beginObject()
    json.field("phase", progress.phase.rawValue)
    json.field("channels_done", progress.channelsDone)
    json.name("channels_total")
    if let total = progress.channelsTotal { json.value(total) } else { json.null() }
    json.endObject()
  }

  private static func unread(_ context: RouteContext, _ user: UserID) throws -> Response {
    try context.mapped {
      let totals = try context.cache.unread(of: user)
      var json = JSONWriter()
      json.beginObject()
      json.field("messages", totals.messages)
      json.field("mentions", totals.mentions)
      json.field("channels", totals.channels)
      json.endObject()
      var response = Response.json(json.finish())
      response.add("Cache-Control", "no-cache")
      response.add("Vary", context.gate.vary)
      return response
    }
  }
}

extension Capability {
  fileprivate var name: StaticString {
    switch self {
    case .channelChangelog: "channel_changelog"
    case .messageChangelog: "message_changelog"
    case .replyListing: "reply_listing"
    case .uploads: "uploads"
    case .deduplication: "deduplication"
    }
  }
}

extension Problem {
  /// Refuses to clear a cache that holds `count` accepted but unsent messages or changes (B4, B58).
  static func unsentMessages(_ count: Int64) -> Problem {
    Problem(
      409, "unsent_messages",
      detail: "\(count) messages or changes are not sent yet: send or remove them, or say force=true.",
      members: "\"unsent\":\(count)")
  }
}
