import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// Live lists of channels (B9).
enum ChannelCollectionRoutes {
  static let path = "/v1/channel-collections"

  static func routes(_ context: CollectionContext) -> [Route] {
    let views = OpenViews(
      context: context, path: path, find: { try $0.channels($1, of: $2) }, isReady: { $0.isReady($1) },
      makeReady: { try $0.makeReady($1, then: $2) }, target: { .channels($0) },
      forget: { $0.dispose($1, then: $2) })
    return itself(context, views) + following(context, views)
  }

  private static func itself(_ context: CollectionContext, _ views: OpenViews<ChannelCollection>) -> [Route] {
    [
      Route(
        .post, "/v1/channel-collections", operation: "openChannelCollection", body: CollectionContext.body
      ) { request in
        try Parameters(request).end()
        let query = try query(request)
        return try context.route.admitted(request) { caller in
          try ChannelFetch(context, request, caller, query, asksFirst: true).answer(
            isFull: { try ChannelCollection.isFull(query, of: caller.user, after: nil, $0) }
          ) { try open(context, request, query, caller, $0) }
        }
      },
      Route(.get, "/v1/channel-collections/{collection_id}", operation: "getChannelCollection") { request in
        try views.show(request, isPerhapsTooLarge: { $0.isPerhapsTooLarge }) { try snapshot(context, $0) }
      },
    ]
  }

  private static func following(_ context: CollectionContext, _ views: OpenViews<ChannelCollection>)
    -> [Route]
  {
    [
      Route(
        .post, "/v1/channel-collections/{collection_id}/more", operation: "loadMoreChannels",
        body: CollectionContext.body
      ) { request in
        let asked = try CollectionContext.load(request, "after", limits: 1...Int64(Limits.channelPageRows))
        return try views.with(request) { view, caller in
          let after = try context.run { try view.key(ofEdge: asked.token) }
          var query = view.query
          query.limit = asked.limit ?? query.limit
          return try ChannelFetch(context, request, caller, query, asksFirst: false).answer(
            isFull: { [query] in try ChannelCollection.isFull(query, of: caller.user, after: after, $0) }
          ) { preferences in
            // The view may have been disposed of while the request was held.
            let view = try context.run { try context.collections.channels(view.id, of: caller.user) }
            return try more(context, request, view, after: after, asked.limit, preferences)
          }
        }
      },
      Route(
        .get, "/v1/channel-collections/{collection_id}/events", operation: "pollChannelCollection"
      ) { try views.follow($0) },
      Route(.delete, "/v1/channel-collections/{collection_id}", operation: "disposeChannelCollection") {
        try views.dispose($0)
      },
    ]
  }

  private static func query(_ request: Request) throws -> ChannelQuery {
    try CollectionContext.parse(request) { json in
      for field in json.fields where !field.name.elementsEqual("query".utf8) {
        throw Problem.invalid(String(decoding: field.name, as: UTF8.self), "There is no such field.")
      }
      guard json.kind == .object else { throw Problem.invalid("body", "Give a JSON object.") }
      guard let query = json["query"] else { return ChannelQuery() }
      return try ChannelQuery(query)
    }
  }

  /// Opens a list, and answers with it once it is durable.
  private static func open(
    _ context: CollectionContext, _ request: Request, _ query: ChannelQuery, _ caller: Caller,
    _ preferences: Preferences
  ) throws -> Outcome {
    let collections = context.collections
    let write = DurableWrite<ChannelCollection>(
      advice: "Open another view: one that nobody asks for is disposed of.",
      unheard: { collections.abandon($0) })
    return try write.answer(
      request,
      submit: { finish in
        try context.run { try collections.openChannels(query, of: caller.user, then: finish) }
      }
    ) { view in
      do {
        // The caller's right is checked again after the wait.
        _ = try context.route.gate.caller(of: request)
        var response = CollectionContext.answer(try snapshot(context, view), status: 201)
        response.add("Location", "\(path)/\(view.id)")
        preferences.apply(to: &response)
        return .respond(response)
      } catch {
        collections.abandon(view)
        throw error
      }
    }
  }

  /// The page after an edge. A page that moves the view's window is answered after the new window is stored,
  /// and is read again then. So a client never gets a page that a crash could undo (B17, B22).
  private static func more(
    _ context: CollectionContext, _ request: Request, _ view: ChannelCollection, after: ChannelListKey?,
    _ limit: Int?, _ preferences: Preferences
  ) throws -> Outcome {
    let body = try context.run {
      try context.route.cache.read { try view.more($0, after: after, limit: limit) }
    }
    guard context.collections.isStored(view) else {
      return try DurableWrite<Void>().answer(request, submit: { context.collections.moved(view, then: $0) }) {
        _ = try context.route.gate.caller(of: request)
        return try more(context, request, view, after: after, limit, preferences)
      }
    }
    var response = CollectionContext.answer(body)
    preferences.apply(to: &response)
    return .respond(response)
  }

  private static func snapshot(_ context: CollectionContext, _ view: ChannelCollection) throws -> ByteBuffer {
    let cursor = context.route.cache.cursor
    return try context.run {
      try context.route.cache.read { reader in
        try view.snapshot(reader, at: cursor)
      }
    }
  }
}
