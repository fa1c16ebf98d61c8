import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// Polls of several views and the user's feed with one cursor, and tickets for clients that cannot set
/// headers (B50).
enum EventRoutes {
  /// The most views that one poll may follow.
  static let mostFollowed = 50

  static func routes(_ context: CollectionContext) -> [Route] {
    [
      Route(.get, "/v1/events", operation: "pollEvents") { request in
        var parameters = Parameters(request)
        let poll = PollParameters(request, &parameters)
        // A view that is named twice is followed once.
        var seen: Set<ExactText> = []
        let names = parameters.list("collections", allowsEmpty: true).filter {
          !$0.isEmpty && seen.insert(ExactText($0)).inserted
        }
        if names.count > mostFollowed { parameters.fault("collections", "Give at most \(mostFollowed).") }
        let hasUserFeed = parameters.flag("user_feed", default: names.isEmpty)
        _ = parameters.text("ticket")
        try parameters.end()
        return try context.route.admitted(request) { caller in
          if let ended = try context.ended(poll, names, request, caller, hasUserFeed: hasUserFeed) {
            return ended
          }
          let find = { try names.map { try context.followed($0, of: caller) } }
          return try Follower.ofThisLog(context, request, caller, find) { targets in
            let followed = Followed(
              context: context, caller: caller, targets: targets, hasUserFeed: hasUserFeed)
            return try Poll.answer(followed, request, poll)
          }
        }
      },
      Route(.post, "/v1/events/ticket", operation: "createEventTicket", body: CollectionContext.body) {
        request in
        try Parameters(request).end()
        let path = try CollectionContext.parse(request) { json in
          var fields = BodyFields(json)
          let path = fields.text("path").flatMap(followed)
          if path == nil { fields.fault("path", "Give the path of a poll, without its query.") }
          try fields.end()
          return path ?? ""
        }
        return try context.route.admitted(request) { caller in
          let (ticket, expires) = context.route.gate.ticket(for: path, caller)
          var json = JSONWriter()
          json.beginObject()
          json.field("ticket", ticket)
          json.field("expires_at", expires * 1000)
          json.endObject()
          return .respond(CollectionContext.answer(json.finish(), status: 201))
        }
      },
    ]
  }

  /// The decoded path, the same for all its spellings. Nil: `path` is not the path of a poll.
  static func followed(_ path: String) -> String? { PathSegments.decoded(path).flatMap(followed) }

  /// The decoded path of a request that polls; nil: it does not.
  static func followed(_ request: Request) -> String? { followed(request.pathSegments) }

  /// Whether the request names the views that it follows, which may be several.
  static func namesViews(_ request: Request) -> Bool { request.pathSegments.count == 3 }

  private static func followed(_ segments: [String]) -> String? {
    let isPoll =
      switch segments.count {
      case 3: segments == ["", "v1", "events"]
      case 5:
        segments[0].isEmpty && segments[1] == "v1" && segments[4] == "events" && isViewName(segments[3])
          && (segments[2] == "channel-collections" || segments[2] == "message-collections")
      default: false
      }
    return isPoll ? segments.joined(separator: "/") : nil
  }

  /// Whether a view could have this id: then every spelling of its path means the same view.
  private static func isViewName(_ name: String) -> Bool {
    !name.isEmpty && name.utf8.count <= 100
      && name.utf8.allSatisfy {
        switch $0 {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
        default: false
        }
      }
  }
}
