import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// Reads channels: the user's list, one channel, its members, its gaps.
enum ChannelRoutes {
  static func routes(_ context: RouteContext) -> [Route] {
    [
      Route(.get, "/v1/channels", operation: "listChannels") { request in
        try list(context, request)
      },
      Route(.get, "/v1/channels/{channel_url}", operation: "getChannel") { request in
        var parameters = Parameters(request)
        var parts: ChannelParts = []
        if parameters.flag("include_member_list") { parts.insert(.members) }
        if parameters.flag("include_metadata") { parts.insert(.metadata) }
        try parameters.end()
        return try context.admitted(request) { caller in
          try context.inChannel(request, caller) { url, caller in
            try .respond(channel(context, request, url, caller, parts))
          }
        }
      },
      Route(.get, "/v1/channels/{channel_url}/members", operation: "listMembers") { request in
        var parameters = Parameters(request)
        let limit = parameters.number("limit", 1...100) ?? 100
        let after = parameters.text("after")
        try parameters.end()
        let preferences = Preferences(request)
        return try context.admitted(request) { caller in
          try context.inChannel(request, caller) { url, caller in
            let fetch = MemberFetch(context, request, caller, preferences)
            return try fetch.answer(of: fetch.wanted(url)) { status in
              try .respond(
                members(
                  context, request, url, caller, status, preferences, after: after, limit: Int(limit)))
            }
          }
        }
      },
      Route(.get, "/v1/channels/{channel_url}/gaps", operation: "listGaps") { request in
        try Parameters(request).end()
        return try context.admitted(request) { caller in
          try context.inChannel(request, caller, needsJoined: true) { url, caller in
            try .respond(gaps(context, url, caller))
          }
        }
      },
    ]
  }

  /// Asks the upstream for channels first while the user's first sync runs (B11), or if the request asks for
  /// it.
  private static func list(_ context: RouteContext, _ request: Request) throws -> Outcome {
    var parameters = Parameters(request)
    let query = ChannelParameters.query(&parameters)
    let token = parameters.text("after")
    try parameters.end()
    let preferences = Preferences(request)
    return try context.admitted(request) { caller in
      do throws(ChannelQuery.Invalid) { try query.validate(listValues: ChatModel.Limits.listValues) } catch {
        throw Problem.invalid(error.field, error.detail)
      }
      let after = try token.map { try ChannelEdge.key($0, query) }
      let isSynced = try context.read { try $0.cachedUser(caller.user)?.isSynced ?? false }
      let asks = preferences.mode == .always || (preferences.mode == .whereNeeded && !isSynced)
      let fetch = MemberFetch(context, request, caller, preferences)
      let answer: (CacheStatus) throws -> Outcome = { status in
        try fetch.answer(of: fetch.wanted(query), status: status) { status in
          try .respond(page(context, request, caller, query, after, status, preferences))
        }
      }
      guard asks else { return try answer(.hit) }
      let within = preferences.milliseconds
      return context.wait(request, of: caller, within: within) {
        context.syncRequests.fetchChannels(of: caller.user, within: within, then: $0)
      } then: { outcome in
        try answer(CacheStatus(outcome))
      }
    }
  }

  private static func page(
    _ context: RouteContext, _ request: Request, _ caller: Caller, _ query: ChannelQuery,
    _ after: ChannelListKey?, _ status: CacheStatus, _ preferences: Preferences
  ) throws -> Response {
    let cursor = context.cache.cursor
    return try context.read { reader in
      guard let user = try reader.cachedUser(caller.user) else { throw Problem(.notSynced(retryAfter: 1000)) }
      let tag = ListTag(cursor, user, request)
      if let known = try tag.known(to: request, reader) {
        return context.notModified.answer(ofText: known, status, preferences)
      }
      let page = try reader.page(query, of: user, after: after)
      let next = page.next.map { ChannelEdge.token($0, query) }
      var json = JSONWriter(capacity: page.items.count + 256)
      json.beginPage(next: next) { $0.splice(fields: page.items.bytes) }
      json.field("complete", page.isComplete)
      json.field("cursor", context.cursor(at: page.version))
      json.endObject()
      var response = Response.json(json.finish())
      response.describe(tag.text, status, preferences, vary: context.gate.vary)
      response.link(next: next, request)
      return response
    }
  }

  private static func channel(
    _ context: RouteContext, _ request: Request, _ url: ChannelURL, _ caller: Caller, _ parts: ChannelParts
  ) throws -> Response {
    let cursor = context.cache.cursor
    return try context.read { reader in
      let view = try known(reader, url, caller)
      let tag = EntityTag(cursor, view)
      if tag.isKnown(to: request) { return context.notModified.answer(tag, .hit) }
      guard let object = try reader.channel(view, parts: parts) else { throw Problem.channelNotFound }
      var response = Response.json(object)
      response.describe(tag, .hit, vary: context.gate.vary)
      return response
    }
  }

  private static func members(
    _ context: RouteContext, _ request: Request, _ url: ChannelURL, _ caller: Caller, _ status: CacheStatus,
    _ preferences: Preferences, after: String?, limit: Int
  ) throws -> Response {
    let cursor = context.cache.cursor
    return try context.read { reader in
      let view = try known(reader, url, caller)
      var tag = EntityTag(cursor, view)
      tag.add(bytes: request.encodedQuery)
      if tag.isKnown(to: request) { return context.notModified.answer(tag, status, preferences) }
      let page = try reader.members(of: view, after: after ?? "", limit: limit)
      var json = JSONWriter(capacity: page.items.count + 256)
      json.beginPage(next: page.next) { $0.splice(fields: page.items.bytes) }
      json.field("complete", page.isComplete)
      json.field("cursor", context.cursor(at: view.toldVersion))
      json.endObject()
      var response = Response.json(json.finish())
      response.describe(tag, status, preferences, vary: context.gate.vary)
      response.link(next: page.next, request)
      return response
    }
  }

  private static func gaps(_ context: RouteContext, _ url: ChannelURL, _ caller: Caller) throws -> Response {
    try context.read { reader in
      let view = try known(reader, url, caller)
      var json = JSONWriter()
      json.beginObject()
      json.name("items")
      json.beginArray()
      let floor = Position.first(at: view.floorAt)
      for gap in try reader.coverage(of: view.channel).gaps where gap.range.upperBound >= floor {
        GapObject.write(gap, into: &json)
      }
      json.endArray()
      json.field("cursor", context.cursor(at: view.toldVersion))
      json.endObject()
      var response = Response.json(json.finish())
      response.add("Cache-Control", "no-cache")
      response.add("Vary", context.gate.vary)
      return response
    }
  }

  private static func known(
    _ reader: CacheReader, _ url: ChannelURL, _ caller: Caller
  ) throws -> ChannelView {
    guard let key = try reader.userKey(of: caller.user), let view = try reader.view(of: url, for: key) else {
      throw Problem.channelNotFound
    }
    return view
  }
}
