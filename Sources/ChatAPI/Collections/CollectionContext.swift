import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// What the operations on collections and feeds work with.
final class CollectionContext: Sendable {
  /// What every operation works with.
  let route: RouteContext
  /// The open views.
  let collections: Collections
  /// Answers that several polls share.
  let shared = SharedAnswers()

  init(route: RouteContext, collections: Collections) {
    self.route = route
    self.collections = collections
  }

  /// The current moment; nil while a commit is under way.
  var moment: SharedAnswers.Moment? {
    let removals = collections.removals
    return route.cache.settledRevision.map {
      SharedAnswers.Moment(revision: $0, cursor: route.cache.cursor, removals: removals)
    }
  }

  /// Runs `body`; errors of views and of the cache become problems.
  func run<Result: ~Copyable>(_ body: () throws -> Result) throws -> Result {
    do { return try body() } catch let error as ViewError { throw Problem(error) } catch let error
      as InvalidFields
    {
      throw Problem.invalid(error.faults.map { Problem.FieldError($0.field, $0.detail) })
    } catch let error as CacheError { throw Problem(error) }
  }

  /// Ends a poll of open views whose cursor is of another log (B52): with a 410, or with a stream that says
  /// the same, because a browser does not show its page a 410. Called before the views begin anew in this
  /// log. Nil: the poll goes on.
  func ended(
    _ poll: PollParameters, _ names: [String], _ request: Request, _ caller: Caller, hasUserFeed: Bool = false
  ) throws -> Outcome? {
    guard let cursor = poll.since.flatMap({ EventCursor($0) }), cursor.epoch != route.cache.cursor.epoch,
      names.allSatisfy({ collections.isOpen($0, of: caller.user) })
    else { return nil }
    let views = try names.map { name in try run { try target(name, of: caller) } }
    let problem = Problem.cursorExpired(views, hasUserFeed: hasUserFeed)
    guard poll.isStream else { throw problem }
    return .respond(
      .events(
        EventStream(
          request.makeWaiter(),
          produce: { [route] buffer in
            buffer.append(EventsOverTime.retry)
            EventsOverTime.end(problem, now: route.cache.cursor, into: &buffer)
            return .end
          })))
  }

  /// The caller's view of that name, of either kind.
  func target(_ name: String, of caller: Caller) throws -> Follower.Target {
    do { return .messages(try collections.messages(name, of: caller.user)) } catch ViewError.notFound {
      return .channels(try collections.channels(name, of: caller.user))
    }
  }

  /// The same for a poll of several views: the problem names the view that is missing.
  func followed(_ name: String, of caller: Caller) throws -> Follower.Target {
    try run {
      do { return try target(name, of: caller) } catch ViewError.notFound {
        throw Problem.collectionNotFound(name)
      }
    }
  }

  /// Parses the request's body as JSON for `body`.
  static func parse<Result>(_ request: Request, _ body: (JSONValue) throws -> Result) throws -> Result {
    try parse(request.body, "body", body)
  }

  /// Parses `bytes` as JSON for `body`. `name`: what a problem calls these bytes.
  static func parse<Result>(
    _ bytes: UnsafeRawBufferPointer, _ name: String, _ body: (JSONValue) throws -> Result
  ) throws -> Result {
    do { return try JSONParser.parse(bytes, body) } catch let error as JSONError {
      throw Problem.invalid(
        name,
        error.isOfNumber
          ? "A number in it is malformed or does not fit into 64 bits." : "Give a JSON object.")
    } catch let error as InvalidFields {
      throw Problem.invalid(error.faults.map { Problem.FieldError($0.field, $0.detail) })
    }
  }

  /// Parses the body of a load call: the edge token in `field`, and `limit`, the number of rows.
  static func load(
    _ request: Request, _ field: String, limits: ClosedRange<Int64>
  ) throws -> (token: String, limit: Int?) {
    try Parameters(request).end()
    return try parse(request) { json in
      var fields = BodyFields(json)
      let token = fields.text(field)
      let limit = fields.number("limit", limits)
      if token == nil { fields.fault(field, "Give the edge token that the last page gave.") }
      try fields.end()
      return (token ?? "", limit.map { Int($0) })
    }
  }

  /// Bodies are collected in memory, up to so many bytes.
  static let body = Route.Body.collected(limit: 256 * 1024)

  /// A JSON answer that no cache may store.
  static func answer(_ body: consuming ByteBuffer, status: Int = 200) -> Response {
    var response = Response.json(body, status: status)
    response.add("Cache-Control", "no-store")
    return response
  }
}

extension Problem {
  /// The problem for the error of a view.
  init(_ error: ViewError) {
    switch error {
    case .notFound: self = .collectionNotFound(nil)
    case .channelNotFound: self = .channelNotFound
    case .cleared: self.init(.notSynced(retryAfter: 1000))
    case .notJoined: self = .notJoined
    case .tooMany(let most):
      self.init(
        429, "too_many_collections", detail: "At most \(most) collections: dispose of some.",
        headers: [("Retry-After", "60")])
    case .foreignEdge(let field):
      self = .invalid(field, "Give back the edge token that this collection's last page gave.")
    }
  }

  /// There is no such view. `name`: the view's id, if the request names several.
  static func collectionNotFound(_ name: String?) -> Problem {
    var json = JSONWriter()
    if let name { json.field("collection_id", name) }
    return Problem(
      404, "collection_not_found", detail: "There is no such collection, or it was disposed of: open one.",
      members: String(decoding: json.finish().array, as: UTF8.self))
  }

  /// The log cannot tell what happened since that cursor (B52).
  static func cursorExpired(_ views: some Sequence<Follower.Target>, hasUserFeed: Bool) -> Problem {
    let paths = views.map(\.path) + (hasUserFeed ? ["/v1/connection"] : [])
    let members = "\"read_again\":[" + paths.map { "\"\($0)\"" }.joined(separator: ",") + "]"
    guard paths.count == 1 else {
      return Problem(
        410, "cursor_expired", detail: "Read each of read_again, and go on from the oldest of their cursors.",
        members: members)
    }
    return Problem(
      410, "cursor_expired", detail: "Read the view again and go on from its cursor: GET \(paths[0])",
      headers: [("Link", "<\(paths[0])>; rel=\"start\"")], members: members)
  }

  /// Too many requests are parked (B54).
  static var tooManyParked: Problem {
    Problem(
      503, "busy", detail: "Too many requests are waiting: ask again later.", headers: [("Retry-After", "5")])
  }
}
