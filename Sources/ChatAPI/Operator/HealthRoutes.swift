import ChatCache
import JSON
import MicroHTTP
import Platform

/// `/healthz` says that the process answers; `/readyz` says whether to send it requests, and what is wrong.
enum HealthRoutes {
  /// `syncRequests` and `cache`: nil while there is no cache yet.
  static func routes(
    _ status: ServiceStatus, _ syncRequests: (any SyncRequests)?, _ cache: Cache? = nil,
    _ signature: WebhookSignature? = nil
  ) -> [Route] {
    [
      Route(.get, "/healthz", operation: "getHealth") { _ in
        var json = JSONWriter(capacity: 32)
        json.beginObject()
        json.field("status", "ok")
        json.endObject()
        return .respond(uncached(json.finish(), status: 200))
      },
      Route(.get, "/readyz", operation: "getReadiness") { _ in
        var report = status.report
        if cache?.isFailingToWrite ?? false { report.reasons.append("storage") }
        if cache?.usage.isFull ?? false { report.reasons.append("cache_full") }
        if signature?.isGuessedWrong ?? false { report.reasons.append("webhook_secret") }
        return .respond(readiness(report, syncRequests?.link.state ?? .unknown))
      },
    ]
  }

  /// Without an upstream the service is still ready: it answers from the cache.
  private static func readiness(_ report: ServiceStatus.Report, _ link: LinkState) -> Response {
    var json = JSONWriter(capacity: 128)
    json.beginObject()
    json.field("status", report.phase.rawValue)
    json.field("mode", report.mode)
    var reasons = report.reasons
    switch link {
    case .unknown: json.field("upstream", "unknown")
    case .online: json.field("upstream", "online")
    case .offline(let loss):
      json.field("upstream", loss == .none ? "none" : "offline")
      reasons.append(loss.rawValue)
    }
    json.name("reasons")
    json.beginArray()
    for reason in reasons { json.value(reason) }
    json.endArray()
    if let migration = report.migration {
      json.field("from", migration.from)
      json.field("to", migration.to)
      json.field("percent", migration.percent)
    }
    json.endObject()
    return uncached(json.finish(), status: report.phase == .ready ? 200 : 503)
  }

  private static func uncached(_ body: consuming ByteBuffer, status: Int) -> Response {
    var response = Response.json(body, status: status)
    response.add("Cache-Control", "no-store")
    return response
  }
}
