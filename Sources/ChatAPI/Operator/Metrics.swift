import MicroHTTP
import Platform

/// The service's metrics. Their values are read when `/metrics` is requested.
package struct Metrics: Sendable {
  /// Writes the metrics of one part of the service.
  package typealias Source = @Sendable (inout MetricsText) -> Void

  private let sources: [Source]

  /// The metrics of all these sources, in order.
  package init(_ sources: [Source]) { self.sources = sources }

  /// The whole text.
  func text() -> ByteBuffer {
    var text = MetricsText()
    for source in sources { source(&text) }
    return text.finish()
  }
}

/// Prometheus' text format, version 0.0.4: for each metric a line of help, a line of type, and its samples.
package struct MetricsText: ~Copyable {
  private var buffer = ByteBuffer(capacity: 4096)

  init() {}

  consuming func finish() -> ByteBuffer { buffer }

  /// What a metric's samples mean over time.
  package enum Kind: String, Sendable {
    case counter, gauge, histogram
  }

  /// Begins a metric; its samples follow at once. `help` must be a line.
  package mutating func begin(_ name: StaticString, _ kind: Kind, _ help: StaticString) {
    buffer.append("# HELP ")
    buffer.append(name)
    buffer.append(" ")
    buffer.append(help)
    buffer.append("\n# TYPE ")
    buffer.append(name)
    buffer.append(" ")
    buffer.append(kind.rawValue)
    buffer.append("\n")
  }

  /// One sample; `label` as `name="value"` with the value escaped already.
  package mutating func sample(_ name: StaticString, label: String? = nil, _ value: Int64) {
    buffer.append(name)
    if let label { buffer.append("{\(label)}") }
    buffer.append(" ")
    buffer.append(decimal: value)
    buffer.append("\n")
  }

  /// One sample; its value is given in millionths.
  package mutating func sample(_ name: StaticString, millionths: Int64) {
    let digits = String(millionths % 1_000_000)
    buffer.append(name)
    buffer.append(" \(millionths / 1_000_000).\(String(repeating: "0", count: 6 - digits.count))\(digits)\n")
  }

  /// A metric of one sample.
  package mutating func metric(_ name: StaticString, _ kind: Kind, _ help: StaticString, _ value: Int64) {
    begin(name, kind, help)
    sample(name, value)
  }
}

/// `/metrics`
enum MetricsRoute {
  static func routes(_ metrics: Metrics) -> [Route] {
    [
      Route(.get, "/metrics", operation: "getMetrics") { _ in
        var response = Response(
          status: 200, type: "text/plain; version=0.0.4; charset=utf-8", body: metrics.text())
        response.add("Cache-Control", "no-store")
        return .respond(response)
      }
    ]
  }
}
