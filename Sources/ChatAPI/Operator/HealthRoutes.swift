import JSON
import MicroHTTP
import Platform

/// `/healthz`: the process answers. `/readyz`: whether to send it requests, and what is amiss.
enum HealthRoutes {
  static func routes(_ status: ServiceStatus) -> [Route] {
    [
      Route(.get, "/healthz", operation: "getHealth") { _ in
        var json = JSONWriter(capacity: 32)
        json.beginObject()
        json.field("status", "ok")
        json.endObject()
        return .respond(uncached(json.finish(), status: 200))
      },
      Route(.get, "/readyz", operation: "getReadiness") { _ in .respond(readiness(status.report)) },
    ]
  }

  /// Offline or without an upstream it is still ready: it answers from what it holds.
  private static func readiness(_ report: ServiceStatus.Report) -> Response {
    var json = JSONWriter(capacity: 128)
    json.beginObject()
    json.field("status", report.phase.rawValue)
    json.field("upstream", report.reasons.contains("no_upstream") ? "none" : "configured")
    json.name("reasons")
    json.beginArray()
    for reason in report.reasons { json.value(reason) }
    json.endArray()
    json.endObject()
    return uncached(json.finish(), status: report.phase == .ready ? 200 : 503)
  }

  private static func uncached(_ body: consuming ByteBuffer, status: Int) -> Response {
    let response = Response.json(body, status: status)
    response.add("Cache-Control", "no-store")
    return response
  }
}
