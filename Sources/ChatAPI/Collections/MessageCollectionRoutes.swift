import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// Live chat views (B16).
enum MessageCollectionRoutes {
  static let path = "/v1/message-collections"

  static func routes(_ context: CollectionContext) -> [Route] {
    let views = OpenViews(
      context: context, path: path, find: { try $0.messages($1, of: $2) }, isReady: { $0.isWhole($1) },
      makeReady: { try $0.makeWhole($1, then: $2) }, target: { .messages($0) },
      forget: { $0.dispose($1, then: $2) }, channel: { $0.url })
    return itself(context, views) + following(context, views)
  }

  private static func itself(_ context: CollectionContext, _ views: OpenViews<MessageCollection>) -> [Route] {
    [
      Route(
        .post, "/v1/message-collections", operation: "openMessageCollection", body: CollectionContext.body
      ) { request in
        try Parameters(request).end()
        let asked = try CollectionContext.parse(request) { try MessageViewRequest($0) }
        return try context.route.admitted(request) { caller in
          try context.route.inChannel(
            request, caller, named: ChannelURL(asked.channelURL), needsJoined: true
          ) { _, caller in try MessageOpening(context, request, caller, asked).answer() }
        }
      },
      Route(.get, "/v1/message-collections/{collection_id}", operation: "getMessageCollection") { request in
        // The upstream's answer may be stored before the view is read. It must then be after the view's
        // cursor.
        let before = context.route.cache.cursor
        return try views.show(request, isPerhapsTooLarge: { $0.isPerhapsTooLarge }) { view in
          let isBehind = view.mayLackFirstPage && before.epoch == context.route.cache.cursor.epoch
          return try snapshot(context, view, at: isBehind ? before : nil)
        }
      },
      Route(
        .post, "/v1/message-collections/{collection_id}/previous", operation: "loadPreviousMessages",
        body: CollectionContext.body
      ) { request in try load(views, request, isOlder: true) },
      Route(
        .post, "/v1/message-collections/{collection_id}/next", operation: "loadNextMessages",
        body: CollectionContext.body
      ) { request in try load(views, request, isOlder: false) },
    ]
  }

  private static func following(_ context: CollectionContext, _ views: OpenViews<MessageCollection>)
    -> [Route]
  {
    [
      Route(
        .get, "/v1/message-collections/{collection_id}/events", operation: "pollMessageCollection"
      ) { try views.follow($0) },
      Route(
        .post, "/v1/message-collections/{collection_id}/reset", operation: "resetMessageCollection",
        body: CollectionContext.body
      ) { request in
        try Parameters(request).end()
        let start = try start(request)
        return try views.with(request) { view, caller in
          var asked = view.request
          asked.start = start
          return try MessageOpening(context, request, caller, asked, replacing: view).answer()
        }
      },
      Route(
        .delete, "/v1/message-collections/{collection_id}/failed", operation: "removeFailedFromCollection"
      ) { request in
        var parameters = Parameters(request)
        let name = parameters.text("request_id")
        try parameters.end()
        return try views.with(request) { view, _ in
          let write = DurableWrite<[RequestID]>(
            advice: "Read the view again: `failed` lists what is there still.")
          return try write.answer(
            request, submit: { context.collections.removeFailed(of: view, named: name, then: $0) }
          ) { UnsentMessageRoutes.answer(removed: $0) }
        }
      },
      Route(.delete, "/v1/message-collections/{collection_id}", operation: "disposeMessageCollection") {
        try views.dispose($0)
      },
    ]
  }

  private static func start(_ request: Request) throws -> String? {
    guard !request.body.isEmpty else { return nil }
    return try CollectionContext.parse(request) { json in
      var fields = BodyFields(json)
      let start = fields.position("starting_point")
      if let start, start != "latest", !MessageViewRequest.isPosition(start) {
        fields.fault("starting_point", "Give a time in ms since 1970, a position, or latest.")
      }
      try fields.end()
      return start == "latest" ? nil : start
    }
  }

  static func snapshot(
    _ context: CollectionContext, _ view: MessageCollection, apiResult: [UInt8]? = nil,
    at cursor: EventCursor? = nil
  ) throws -> ByteBuffer {
    let cursor = cursor ?? context.route.cache.cursor
    let viewContext = context.collections.viewContext(view.url)
    return try context.run {
      try context.route.cache.read { reader in
        try view.snapshot(reader, viewContext, at: cursor, apiResult: apiResult)
      }
    }
  }

  private static func load(
    _ views: OpenViews<MessageCollection>, _ request: Request, isOlder: Bool
  ) throws -> Outcome {
    let field = isOlder ? "before" : "after"
    let asked = try CollectionContext.load(request, field, limits: 1...Int64(Limits.messagePageRows))
    return try views.with(request) { view, caller in
      let position = try views.context.run { try view.position(ofEdge: asked.token, field) }
      let query = view.pageQuery(beyond: position, isOlder: isOlder, limit: asked.limit)
      return try EdgeLoad(views.context, request, caller, view, query).answer()
    }
  }
}
