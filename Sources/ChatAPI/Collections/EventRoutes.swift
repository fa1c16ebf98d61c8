import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// Several views and the user's feed with one cursor, and tickets for those who cannot set headers (B50).
enum EventRoutes {
  /// Views that one poll may follow.
  static let mostFollowed = 50

  static func routes(_ viewing: Viewing) -> [Route] {
    [
      Route(.get, "/v1/events", operation: "pollEvents") { request in
        var parameters = Parameters(request)
        let poll = PollParameters(request, &parameters)
        // A view that is named twice is followed once.
        var seen: Set<String> = []
        let names = parameters.list("collections").filter { !$0.isEmpty && seen.insert($0).inserted }
        if names.count > mostFollowed { parameters.fault("collections", "Give at most \(mostFollowed).") }
        let hasUserFeed = parameters.flag("user_feed", default: names.isEmpty)
        _ = parameters.text("ticket")
        try parameters.end()
        return try viewing.reading.admitted(request) { caller in
          if let ended = try viewing.ended(poll, names, request, caller, again: "/v1/connection") {
            return ended
          }
          let find = { try names.map { try target($0, viewing, caller) } }
          return try Follower.ofThisLog(viewing, request, find) { targets in
            let followed = Followed(
              viewing: viewing, caller: caller, targets: targets, hasUserFeed: hasUserFeed)
            return try Poll.answer(followed, request, poll)
          }
        }
      },
      Route(.post, "/v1/events/ticket", operation: "createEventTicket", body: Viewing.body) { request in
        try Parameters(request).end()
        let path = try Viewing.parse(request) { json in
          var fields = BodyFields(json)
          let path = fields.text("path") ?? ""
          if !isFollowed(path) { fields.fault("path", "Give the path of a poll, without its query.") }
          try fields.end()
          return path
        }
        return try viewing.reading.admitted(request) { caller in
          let (ticket, expires) = viewing.reading.gate.ticket(for: path, caller)
          var json = JSONWriter()
          json.beginObject()
          json.field("ticket", ticket)
          json.field("expires_at", expires)
          json.endObject()
          return .respond(Viewing.answer(json.finish(), status: 201))
        }
      },
    ]
  }

  /// Whether it is the path of a poll.
  static func isFollowed(_ path: String) -> Bool {
    if path == "/v1/events" { return true }
    let parts = path.split(separator: "/", omittingEmptySubsequences: false)
    return parts.count == 5 && parts[0].isEmpty && parts[1] == "v1"
      && (parts[2] == "channel-collections" || parts[2] == "message-collections") && !parts[3].isEmpty
      && parts[4] == "events"
  }

  private static func target(
    _ id: String, _ viewing: Viewing, _ caller: Caller
  ) throws -> Follower.Target {
    try viewing.run {
      do { return .messages(try viewing.collections.messages(id, of: caller.user)) } catch ViewError.notFound
      {
        return .channels(try viewing.collections.channels(id, of: caller.user))
      }
    }
  }
}
