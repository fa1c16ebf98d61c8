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
  /// Answers that many wait for.
  let shared = SharedAnswers()

  init(route: RouteContext, collections: Collections) {
    self.route = route
    self.collections = collections
  }

  /// This moment; nil while it changes.
  var moment: SharedAnswers.Moment? {
    let removals = collections.removals
    return route.cache.settledRevision.map {
      SharedAnswers.Moment(revision: $0, cursor: route.cache.cursor, removals: removals)
    }
  }

  /// Runs what works on views; its errors become problems.
  func run<Result: ~Copyable>(_ body: () throws -> Result) throws -> Result {
    do { return try body() } catch let error as ViewError { throw Problem(error) } catch let error
      as InvalidFields
    {
      throw Problem.invalid(error.faults.map { Problem.FieldError($0.field, $0.detail) })
    } catch let error as CacheError { throw Problem(error) }
  }

  /// The end of a poll whose cursor is of another log (B52): a 410, or a stream that says the same, since a
  /// browser tells its page nothing of a 410. Told of views that are there, before what went with the old log
  /// is looked for in them. Nil where the cursor is of this log.
  func ended(
    _ poll: PollParameters, _ names: [String], _ request: Request, _ caller: Caller, again: String
  ) throws -> Outcome? {
    guard let cursor = poll.since.flatMap({ EventCursor($0) }), cursor.epoch != route.cache.cursor.epoch,
      names.allSatisfy({ collections.isOpen($0, of: caller.user) })
    else { return nil }
    let problem = Problem.cursorExpired(again)
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

  /// A body's fields, read by `body`.
  static func parse<Result>(_ request: Request, _ body: (JSONValue) throws -> Result) throws -> Result {
    try parse(request.body, "body", body)
  }

  /// The fields of a JSON object, read by `body`; `name`: where it stands.
  static func parse<Result>(
    _ bytes: UnsafeRawBufferPointer, _ name: String, _ body: (JSONValue) throws -> Result
  ) throws -> Result {
    do { return try JSONParser.parse(bytes, body) } catch is JSONError {
      throw Problem.invalid(name, "Give a JSON object.")
    } catch let error as InvalidFields {
      throw Problem.invalid(error.faults.map { Problem.FieldError($0.field, $0.detail) })
    }
  }

  /// The edge token of a load call, from the body's field of that name; `hint`: what to give.
  static func edge(_ request: Request, _ field: String, hint: String) throws -> String {
    try Parameters(request).end()
    return try parse(request) { json in
      var fields = BodyFields(json)
      let token = fields.text(field)
      if token == nil { fields.fault(field, hint) }
      try fields.end()
      return token ?? ""
    }
  }

  /// How large a body may be, in bytes.
  static let body = Route.Body.collected(limit: 256 * 1024)

  /// An answer that is not to be kept.
  static func answer(_ body: consuming ByteBuffer, status: Int = 200) -> Response {
    var response = Response.json(body, status: status)
    response.add("Cache-Control", "no-store")
    return response
  }
}

extension Problem {
  /// What a client is told when a view cannot be answered.
  init(_ error: ViewError) {
    switch error {
    case .notFound:
      self.init(
        404, "collection_not_found", detail: "There is no such collection, or it was disposed of: open one.")
    case .channelNotFound: self = .channelNotFound
    case .notJoined: self = .notJoined
    case .tooMany(let most):
      self.init(
        429, "too_many_collections", detail: "At most \(most) collections: dispose of some.",
        headers: [("Retry-After", "60")])
    case .foreignEdge(let field):
      self = .invalid(field, "Give back the edge token that this collection's last page gave.")
    }
  }

  /// The log cannot tell what happened since that cursor (B52).
  static func cursorExpired(_ again: String) -> Problem {
    Problem(
      410, "cursor_expired", detail: "Read the view again and go on from its cursor: GET \(again)",
      headers: [("Link", "<\(again)>; rel=\"start\"")])
  }

  /// Too many requests are parked (B54).
  static var tooManyParked: Problem {
    Problem(
      503, "busy", detail: "Too many requests are waiting: ask again later.", headers: [("Retry-After", "5")])
  }
}
