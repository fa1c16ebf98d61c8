import MicroHTTP

/// The HTTP layer's metrics.
package enum ServerMetrics {
  /// Writes what `server` counts.
  package static func write(_ server: Server, to text: inout MetricsText) {
    text.begin("perch_http_answers_total", .counter, "Answers given, by the first digit of their status.")
    for digit in 1...5 {
      text.sample(
        "perch_http_answers_total", label: "class=\"\(digit)xx\"", Int64(server.counters.answered(digit)))
    }
    text.metric(
      "perch_http_requests_running", .gauge, "Requests begun and not answered to the end, parked ones too.",
      Int64(server.counters.running))
    text.begin(
      "perch_http_refused_total", .counter, "Requests refused at a bound: 431, 414, 413, or 503 for bodies.")
    for bound in ServerCounters.Bound.allCases {
      text.sample(
        "perch_http_refused_total", label: "bound=\"\(bound.rawValue)\"",
        Int64(server.counters.refusals(bound)))
    }
    text.metric(
      "perch_http_unadmitted_body_bytes", .gauge, "Bytes of bodies whose requests no handler has looked at.",
      Int64(server.bodyRoom.bytes))
    let counts = server.counts
    text.metric("perch_http_connections", .gauge, "Connections open.", Int64(counts.connections))
    text.metric("perch_http_parked", .gauge, "Requests that wait for a change.", Int64(counts.parked))
  }
}
