import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// Live lists of channels (B9).
enum ChannelCollectionRoutes {
  static let path = "/v1/channel-collections"

  static func routes(_ viewing: Viewing) -> [Route] {
    let views = OpenViews(
      viewing: viewing, path: path, find: { try $0.channels($1, of: $2) }, target: { .channels($0) },
      forget: { try $0.dispose($1) })
    return itself(viewing, views) + following(viewing, views)
  }

  private static func itself(_ viewing: Viewing, _ views: OpenViews<ChannelCollection>) -> [Route] {
    [
      Route(
        .post, "/v1/channel-collections", operation: "openChannelCollection", body: Viewing.body
      ) { request in
        try Parameters(request).end()
        let query = try query(request)
        return try viewing.reading.admitted(request) { caller in
          try ChannelFetch(viewing, request, caller, asksFirst: true).answer(
            isFull: { try ChannelCollection.isFull(query, of: caller.user, after: nil, $0) }
          ) { preferences in
            let view = try viewing.run { try viewing.collections.openChannels(query, of: caller.user) }
            let body = try snapshot(viewing, view, isOpening: true)
            try viewing.run { try viewing.collections.moved(view) }
            var response = Viewing.answer(body, status: 201)
            response.add("Location", "\(path)/\(view.id)")
            preferences.apply(to: &response)
            return .respond(response)
          }
        }
      },
      Route(.get, "/v1/channel-collections/{collection_id}", operation: "getChannelCollection") { request in
        try Parameters(request).end()
        return try views.with(request) { view, _ in
          let body = try snapshot(viewing, view, isOpening: false)
          guard view.isPerhapsTooLarge else { return .respond(Viewing.answer(body)) }
          try viewing.run { try viewing.collections.bound(view) }
          return .respond(Viewing.answer(try snapshot(viewing, view, isOpening: false)))
        }
      },
    ]
  }

  private static func following(_ viewing: Viewing, _ views: OpenViews<ChannelCollection>) -> [Route] {
    [
      Route(
        .post, "/v1/channel-collections/{collection_id}/more", operation: "loadMoreChannels",
        body: Viewing.body
      ) { request in
        let token = try Viewing.edge(
          request, "after", hint: "Give the token that the last page called next.")
        return try views.with(request) { view, caller in
          let after = try viewing.run { try view.place(ofEdge: token) }
          return try ChannelFetch(viewing, request, caller, asksFirst: false).answer(
            isFull: { try ChannelCollection.isFull(view.query, of: caller.user, after: after, $0) }
          ) { preferences in
            let body = try viewing.run {
              try viewing.reading.cache.read { try view.more($0, after: after) }
            }
            try viewing.run { try viewing.collections.moved(view) }
            var response = Viewing.answer(body)
            preferences.apply(to: &response)
            return .respond(response)
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
    try Viewing.parse(request) { json in
      for field in json.fields where !field.name.elementsEqual("query".utf8) {
        throw Problem.invalid(String(decoding: field.name, as: UTF8.self), "There is no such field.")
      }
      guard json.kind == .object else { throw Problem.invalid("body", "Give a JSON object.") }
      guard let query = json["query"] else { return ChannelQuery() }
      return try ChannelQuery(query)
    }
  }

  private static func snapshot(
    _ viewing: Viewing, _ view: ChannelCollection, isOpening: Bool
  ) throws -> ByteBuffer {
    let cursor = viewing.reading.cache.cursor
    return try viewing.run {
      try viewing.reading.cache.read { reader in
        try view.snapshot(
          reader, cursor: cursor.description, at: cursor.sequence, isOpening: isOpening)
      }
    }
  }
}
