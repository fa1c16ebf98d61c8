import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// Reading channels: the user's list, one, its members, its gaps.
enum ChannelRoutes {
  static func routes(_ reading: Reading) -> [Route] {
    [
      Route(.get, "/v1/channels", operation: "listChannels") { request in
        try list(reading, request)
      },
      Route(.get, "/v1/channels/{channel_url}", operation: "getChannel") { request in
        var parameters = Parameters(request)
        var parts: ChannelParts = []
        if parameters.flag("include_member_list") { parts.insert(.members) }
        if parameters.flag("include_metadata") { parts.insert(.metadata) }
        try parameters.end()
        return try reading.admitted(request) { caller in
          try reading.inChannel(request, caller) { url, caller in
            try .respond(channel(reading, request, url, caller, parts))
          }
        }
      },
      Route(.get, "/v1/channels/{channel_url}/members", operation: "listMembers") { request in
        var parameters = Parameters(request)
        let limit = parameters.number("limit", 1...100) ?? 100
        let after = parameters.text("after")
        try parameters.end()
        let preferences = Preferences(request)
        return try reading.admitted(request) { caller in
          try reading.inChannel(request, caller) { url, caller in
            let fetch = MemberFetch(reading, request, caller, preferences)
            return try fetch.answer(of: fetch.wanted(url)) { status in
              try .respond(
                members(
                  reading, request, url, caller, status, preferences, after: after, limit: Int(limit)))
            }
          }
        }
      },
      Route(.get, "/v1/channels/{channel_url}/gaps", operation: "listGaps") { request in
        try Parameters(request).end()
        return try reading.admitted(request) { caller in
          try reading.inChannel(request, caller, needsJoined: true) { url, caller in
            try .respond(gaps(reading, url, caller))
          }
        }
      },
    ]
  }

  /// The list is read through while the first sync runs (B11), and where the request asks for it.
  private static func list(_ reading: Reading, _ request: Request) throws -> Outcome {
    var parameters = Parameters(request)
    let query = ChannelParameters.query(&parameters)
    let token = parameters.text("after")
    try parameters.end()
    let preferences = Preferences(request)
    return try reading.admitted(request) { caller in
      do throws(ChannelQuery.Invalid) { try query.validate(listValues: ChatModel.Limits.listValues) } catch {
        throw Problem.invalid(error.field, error.detail)
      }
      let after = try token.map { try ChannelEdge.key($0, query) }
      let isSynced = try reading.read { try $0.cachedUser(caller.user)?.isSynced ?? false }
      let asks = preferences.mode == .always || (preferences.mode == .whereNeeded && !isSynced)
      let fetch = MemberFetch(reading, request, caller, preferences)
      let answer: (CacheStatus) throws -> Outcome = { status in
        try fetch.answer(of: fetch.wanted(query), status: status) { status in
          try .respond(page(reading, request, caller, query, after, status, preferences))
        }
      }
      guard asks else { return try answer(.hit) }
      let came = Guarded<SyncOutcome?>(nil)
      let waiter = request.makeWaiter()
      reading.syncRequests.fetchChannels(of: caller.user, within: preferences.milliseconds) { fetched in
        came.withLock { $0 = fetched }
        waiter.wake()
      }
      return reading.hold(request, of: caller, milliseconds: preferences.milliseconds + 500) { _ in
        try answer(CacheStatus(came.withLock { $0 }))
      }
    }
  }

  private static func page(
    _ reading: Reading, _ request: Request, _ caller: Caller, _ query: ChannelQuery,
    _ after: ChannelListKey?, _ status: CacheStatus, _ preferences: Preferences
  ) throws -> Response {
    let cursor = reading.cache.cursor
    return try reading.read { reader in
      guard let user = try reader.cachedUser(caller.user) else { throw Problem(.notSynced(retryAfter: 1000)) }
      let tag = ListTag(cursor, user, request)
      if let known = try tag.known(to: request, reader) {
        return reading.notModified.answer(ofText: known, status, preferences)
      }
      let page = try reader.page(query, of: user, after: after)
      let next = page.next.map { ChannelEdge.token($0, query) }
      var json = JSONWriter(capacity: page.items.count + 256)
      json.beginPage(next: next) { $0.splice(fields: page.items.bytes) }
      json.field("complete", page.isComplete)
      json.field("cursor", reading.cursor(at: page.version))
      json.endObject()
      var response = Response.json(json.finish())
      response.add("ETag", tag.text)
      response.describe(status, vary: reading.gate.vary)
      response.link(next: next, request)
      preferences.apply(to: &response)
      return response
    }
  }

  private static func channel(
    _ reading: Reading, _ request: Request, _ url: ChannelURL, _ caller: Caller, _ parts: ChannelParts
  ) throws -> Response {
    let cursor = reading.cache.cursor
    return try reading.read { reader in
      let view = try known(reader, url, caller)
      var tag = EntityTag(cursor, view.user)
      tag.add(view.channelVersion)
      tag.add(view.membershipVersion)
      if tag.isKnown(to: request) { return reading.notModified.answer(tag, .hit) }
      guard let object = try reader.channel(view, parts: parts) else { throw Problem.channelNotFound }
      var response = Response.json(object)
      response.add("ETag", tag.text)
      response.describe(.hit, vary: reading.gate.vary)
      return response
    }
  }

  private static func members(
    _ reading: Reading, _ request: Request, _ url: ChannelURL, _ caller: Caller, _ status: CacheStatus,
    _ preferences: Preferences, after: String?, limit: Int
  ) throws -> Response {
    let cursor = reading.cache.cursor
    return try reading.read { reader in
      let view = try known(reader, url, caller)
      var tag = EntityTag(cursor, view.user)
      tag.add(view.channelVersion)
      tag.add(view.membershipVersion)
      tag.add(bytes: request.encodedQuery)
      if tag.isKnown(to: request) { return reading.notModified.answer(tag, status, preferences) }
      let page = try reader.members(of: view, after: after ?? "", limit: limit)
      var json = JSONWriter(capacity: page.items.count + 256)
      json.beginPage(next: page.next) { $0.splice(fields: page.items.bytes) }
      json.field("complete", page.isComplete)
      json.field("cursor", reading.cursor(at: view.version))
      json.endObject()
      var response = Response.json(json.finish())
      response.add("ETag", tag.text)
      response.describe(status, vary: reading.gate.vary)
      response.link(next: page.next, request)
      preferences.apply(to: &response)
      return response
    }
  }

  private static func gaps(_ reading: Reading, _ url: ChannelURL, _ caller: Caller) throws -> Response {
    try reading.read { reader in
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
      json.field("cursor", reading.cursor(at: view.version))
      json.endObject()
      var response = Response.json(json.finish())
      response.add("Cache-Control", "no-cache")
      response.add("Vary", reading.gate.vary)
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
