import Platform

/// Which browsers' origins may read the answers (CORS); none by default.
package struct CrossOrigin: Sendable {
  /// Origins such as `https://example.org`; `*` allows all.
  package var origins: [String] = []
  /// Response headers that scripts may read.
  package var exposedHeaders = [
    "ETag", "Link", "Location", "Retry-After", "X-Request-Id", "Cache-Status", "Idempotency-Replayed",
    "Preference-Applied", "Accept-Ranges", "Content-Range", "Content-Disposition", "WWW-Authenticate",
  ]
  /// Request headers that scripts may send.
  package var requestHeaders = [
    "Authorization", "Content-Type", "If-None-Match", "If-Match", "Prefer", "Idempotency-Key", "X-Request-Id",
    "Range", "If-Range", "Perch-User", "traceparent", "Last-Event-ID", "Cache-Control",
  ]
  /// Seconds for which a browser may remember a preflight.
  package var preflightSeconds = 600

  /// No origin at all.
  package init() {}

  func allows(_ origin: UnsafeRawBufferPointer) -> Bool {
    origins.contains { $0 == "*" || $0.utf8.elementsEqual(origin) }
  }

  /// Adds what a browser needs to let the origin's script read `response`.
  func mark(_ response: inout Response, origin: UnsafeRawBufferPointer) {
    response.add("Access-Control-Allow-Origin", origin)
    response.add("Access-Control-Expose-Headers", exposedHeaders.joined(separator: ", "))
    response.add("Vary", "Origin")
  }

  /// The answer to a preflight of an allowed origin.
  func preflight(allow: String) -> Response {
    var response = Response.empty(204)
    response.add("Allow", allow)
    response.add("Access-Control-Allow-Methods", allow)
    response.add("Access-Control-Allow-Headers", requestHeaders.joined(separator: ", "))
    response.add("Access-Control-Max-Age", "\(preflightSeconds)")
    return response
  }
}
