import ChatCache
import ChatModel
import JSON
import MicroHTTP
import Platform

/// Shows what the cache holds, and clears it (B56, B58).
enum CacheRoutes {
  static func routes(_ context: RouteContext) -> [Route] {
    [
      Route(.get, "/v1/cache", operation: "getCache") { request in
        try Parameters(request).end()
        return try context.operated(request, scope: .chat) { caller in try .respond(info(context, caller)) }
      },
      Route(.get, "/v1/cache/channels", operation: "listCachedChannels") { request in
        var parameters = Parameters(request)
        let order = parameters.word("order", CachedChannelOrder.self) ?? .accessedAt
        let isDescending = parameters.word("direction", Direction.self) == .desc
        let limit = parameters.number("limit", 1...1000) ?? 100
        try parameters.end()
        return try context.operated(request, scope: .chat) { caller in
          try .respond(channels(context, caller, order, isDescending, Int(limit)))
        }
      },
      Route(.delete, "/v1/channels/{channel_url}/cache", operation: "clearChannelCache") { request in
        try Parameters(request).end()
        return try context.admitted(request) { caller in
          try context.inChannel(request, caller) { url, caller in try clear(context, request, url, caller) }
        }
      },
      Route(.delete, "/v1/cache", operation: "clearCache") { request in
        var parameters = Parameters(request)
        let isForced = parameters.flag("force")
        try parameters.end()
        return try context.operated(request, scope: .admin) { _ in
          try clear(context, request, removesUnsent: isForced) { writer, last in
            let unsent = try writer.reader.unsentRows()
            guard unsent == 0 || isForced else { throw Problem.unsentMessages(unsent) }
            try writer.clearAll(withUnsent: isForced, through: last)
          }
        }
      },
    ]
  }

  private enum Direction: String, CaseIterable { case asc, desc }

  private static func info(_ context: RouteContext, _ caller: Caller) throws -> Response {
    try context.read { reader in
      let info = try reader.info(of: try owner(reader, caller))
      var json = JSONWriter()
      json.beginObject()
      json.field("size_bytes", info.sizeBytes)
      json.field("max_size_bytes", context.cache.limit.bytes)
      json.name("clear_order")
      json.beginArray()
      for term in context.cache.limit.order {
        json.beginObject()
        json.field("field", term.field.rawValue)
        json.field("direction", term.isDescending ? "desc" : "asc")
        json.endObject()
      }
      json.endArray()
      json.field("mode", "sqlite")
      json.field("epoch", context.cache.cursor.epochText)
      json.field("channels", info.channels)
      json.field("messages", info.messages)
      json.field("unsent", info.unsent)
      json.field("encrypted", false)
      json.endObject()
      var response = Response.json(json.finish())
      response.add("Cache-Control", "no-cache")
      response.add("Vary", context.gate.vary)
      return response
    }
  }

  private static func channels(
    _ context: RouteContext, _ caller: Caller, _ order: CachedChannelOrder, _ isDescending: Bool, _ limit: Int
  ) throws -> Response {
    try context.read { reader in
      let found = try reader.cachedChannels(
        of: try owner(reader, caller), by: order, isDescending: isDescending, limit: limit)
      var json = JSONWriter()
      json.beginObject()
      json.name("items")
      json.beginArray()
      for channel in found {
        json.beginObject()
        json.field("channel_url", channel.url.text)
        json.field("custom_type", channel.customType)
        json.field("cached_message_count", channel.messages)
        json.field("cached_bytes", channel.bytes)
        json.field("accessed_at", channel.accessedAt)
        json.name("last_message_at")
        if let moment = channel.lastMessageAt { json.value(moment) } else { json.null() }
        json.field("channel_created_at", channel.createdAt)
        json.endObject()
      }
      json.endArray()
      json.endObject()
      var response = Response.json(json.finish())
      response.add("Cache-Control", "no-cache")
      response.add("Vary", context.gate.vary)
      return response
    }
  }

  /// The user whose data is counted: the caller, or nil for an operator, who sees the data of all users.
  private static func owner(_ reader: CacheReader, _ caller: Caller) throws -> UserKey? {
    caller.scopes.contains(.admin) ? nil : try reader.userKey(of: caller.user) ?? .unknown
  }

  private static func clear(
    _ context: RouteContext, _ request: Request, _ url: ChannelURL, _ caller: Caller
  ) throws -> Outcome {
    try clear(context, request) { writer, _ in
      let reader = writer.reader
      guard let key = try reader.userKey(of: caller.user), let view = try reader.view(of: url, for: key)
      else {
        throw Problem.channelNotFound
      }
      guard try caller.scopes.contains(.admin) || !reader.isShared(view) else {
        throw Problem(
          409, "shared", detail: "Somebody else uses this channel here too: ask the operator to clear it.")
      }
      try writer.clear(url)
    }
  }

  /// How long a request waits until many cleared rows are deleted (ms). Nobody is shown them meanwhile.
  private static let longestWait = 10_000

  /// Clears with `body`, and answers when all is deleted, or the longest wait is over. `removesUnsent`:
  /// removes all users' unsent rows first, if they are too many for the commit that clears. `body` gets the
  /// last one's id.
  private static func clear(
    _ context: RouteContext, _ request: Request, removesUnsent: Bool = false,
    _ body: @escaping @Sendable (CacheWriter, _ last: Int64) throws -> Void
  ) throws -> Outcome {
    let cache = context.cache
    let clearing = { @Sendable (writer: CacheWriter, last: Int64) in
      try body(writer, last)
      return writer.hasClearedRows
    }
    let advice =
      "If many unsent messages are removed, that goes on: look at GET /v1/cache, or send it again."
    return try DurableWrite<Bool>(advice: advice).answer(
      request,
      submit: {
        removesUnsent
          ? cache.accept(afterRemovingUnsent: clearing, finish: $0)
          : cache.accept({ try clearing($0, .max) }, finish: $0)
      }
    ) { isLeft in
      context.hold(
        request, milliseconds: longestWait, answer: { .respond(.empty(204)) },
        unless: { done in !isLeft || context.cache.areClearedRowsDeleted(else: done) })
    }
  }
}
