import MicroHTTP
import Platform

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
      "perch_http_refused_total", .counter,
      "Requests beyond a limit: 431, 414, 413, or 503 if bodies take too much.")
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
    writeActivities(server.connectionCounts, to: &text)
    text.metric("perch_http_parked", .gauge, "Requests that wait for a change.", Int64(counts.parked))
    let streams = server.streamCounts
    text.metric(
      "perch_http_stream_bytes", .gauge, "Bytes that event streams keep until they are taken.",
      Int64(streams.bytes))
    text.metric(
      "perch_http_streams_refused_total", .counter,
      "Event streams that were closed because there was no room for their next piece.", Int64(streams.refused)
    )
    text.metric(
      "perch_log_lines_dropped_total", .counter, "Log lines dropped because stderr was not read in time.",
      Int64(Log.queue.droppedLines))
  }

  private static func writeActivities(_ counts: [ConnectionActivity: Int], to text: inout MetricsText) {
    text.begin("perch_http_connections_by_activity", .gauge, "Connections open, by what happens on them.")
    for activity in ConnectionActivity.allCases {
      text.sample(
        "perch_http_connections_by_activity", label: "activity=\"\(activity.rawValue)\"",
        Int64(counts[activity, default: 0]))
    }
  }
}
