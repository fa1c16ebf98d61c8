import ChatCache
import ChatModel
import JSON
import MicroHTTP

/// `/v1/admin/users`: every user who connected here, for the operator.
enum UserRoutes {
  static func routes(_ context: RouteContext) -> [Route] {
    [
      Route(.get, "/v1/admin/users", operation: "listUsers") { request in
        var parameters = Parameters(request)
        let after = parameters.text("after") ?? ""
        let limit = Int(parameters.number("limit", 1...1000) ?? 100)
        try parameters.end()
        _ = try context.gate.caller(of: request, scope: .admin)
        return try .respond(users(context, request, after: after, limit: limit))
      }
    ]
  }

  private static func users(
    _ context: RouteContext, _ request: Request, after: String, limit: Int
  ) throws -> Response {
    let users = try context.read { try $0.users(after: after, limit: limit + 1) }
    let shown = users.prefix(limit)
    let next = users.count > limit ? shown.last?.id.text : nil
    var json = JSONWriter()
    json.beginPage(next: next) { json in
      for user in shown {
        json.beginObject()
        json.field("user_id", user.id.text)
        json.field("state", context.syncRequests.connection(of: user.id).state.rawValue)
        json.field("synced", user.isSynced)
        json.field("channels", user.channels)
        json.name("unsent")
        json.beginObject()
        json.field("pending", user.unsent.pending)
        json.field("failed", user.unsent.failed)
        json.name("oldest_accepted_at")
        if let moment = user.oldestUnsentAt { json.value(moment) } else { json.null() }
        json.endObject()
        json.endObject()
      }
    }
    json.endObject()
    var response = Response.json(json.finish())
    response.add("Cache-Control", "no-store")
    response.link(next: next, request)
    return response
  }
}
