import ChatAPI
import JSON
import MicroHTTP
import Origin
import Platform

/// `perch demo`'s own operations: the users to choose from, the switch of the link to the upstream, and the
/// stand-in's files, which the chat page shows as its own.
enum DemoRoutes {
  private static let bodyBytes = 1024

  /// The same routes of a service that is no demo: all answer 404.
  static let absent = routes(of: nil)

  /// The operations of a demo. They give tokens to whoever asks, so they answer only requests that `rule`
  /// lets through.
  static func routes(
    of demo: (users: DemoUsers, origin: OriginServer), answering rule: HostRule
  ) -> [Route] {
    routes(of: demo).map { $0.answering(only: rule) }
  }

  private static func routes(of demo: (users: DemoUsers, origin: OriginServer)?) -> [Route] {
    [
      Route(.get, "/demo", operation: "getDemo") { _ in
        guard let demo else { throw noDemo }
        return .respond(answer(demo.users, demo.origin))
      },
      Route(
        .put, "/demo/upstream", operation: "setDemoUpstream",
        body: .collected(limit: bodyBytes, types: ["application/json"], required: true)
      ) { request in
        guard let demo else { throw noDemo }
        demo.origin.isCutOff = try !isWantedUp(request.body)
        Log.line(.info, "demo_upstream", ["up": .text(demo.origin.isCutOff ? "false" : "true")])
        return .respond(answer(demo.users, demo.origin))
      },
      Route(.get, "/demo/files/{name}", operation: "getDemoFile") { request in
        guard let demo else { throw noDemo }
        guard !demo.origin.isCutOff else {
          throw Problem(
            503, "upstream_unreachable", detail: "The stand-in is cut off. PUT /demo/upstream mends it.",
            headers: [("Retry-After", "1")])
        }
        guard let file = try demo.origin.file(request.parameter(0)) else {
          throw Problem(404, "file_not_found", detail: "The stand-in has no file of this name.")
        }
        return .respond(file)
      },
    ]
  }

  private static let noDemo = Problem(
    404, "no_demo", detail: "Only `perch demo` has seeded users and a stand-in to cut off.")

  private static func isWantedUp(_ body: UnsafeRawBufferPointer) throws -> Bool {
    let wanted: Bool?
    do {
      wanted = try JSONParser.parse(body) { root in
        var fields = root.fields
        guard let field = fields.next(), fields.next() == nil, field.name.elementsEqual("up".utf8) else {
          return nil
        }
        return field.value.bool
      }
    } catch {
      throw Problem(400, "malformed_json", detail: "Send a JSON object.")
    }
    guard let wanted else {
      throw Problem(
        400, "invalid_request", detail: "Send {\"up\": true} or {\"up\": false}.",
        errors: [.init("up", "is true or false, and the only field")])
    }
    return wanted
  }

  private static func answer(_ users: DemoUsers, _ origin: OriginServer) -> Response {
    var json = JSONWriter(capacity: 2048)
    json.beginObject()
    json.name("users")
    json.beginArray()
    for user in DemoUsers.ids {
      json.beginObject()
      json.field("user_id", user)
      json.field("token", users.token(of: user))
      json.endObject()
    }
    json.endArray()
    json.field("origin_url", origin.base)
    json.field("up", !origin.isCutOff)
    json.endObject()
    var response = Response.json(json.finish())
    response.add("Cache-Control", "no-store")
    return response
  }
}

/// The seeded users, and tokens for them.
struct DemoUsers: Sendable {
  static let ids = ["alice", "bob", "carol", "dave"]
  private static let tokenSeconds: Int64 = 7 * 24 * 3600

  private let secrets: SigningSecrets

  /// Signs with the service's secret, which is made first if there is none.
  init(_ file: SecretFile) throws { secrets = try file.readOrMake() }

  /// A fresh token.
  func token(of user: String) -> String {
    let now = Clock.system.wallMilliseconds() / 1000
    return BearerToken(user: user, scopes: .chat, expires: now + DemoUsers.tokenSeconds).signed(with: secrets)
  }
}
