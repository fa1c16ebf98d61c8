/// The report of a load, as text.
package struct LoadReport: Sendable {
  /// One line with the sizes and rates of the load.
  package var title = ""
  /// The measurements of each second.
  package var seconds: [Second] = []
  /// How many of the first seconds are left out of what is summed up, while views are being opened.
  package var warmUp = 0
  /// Whether messages are sent into a channel beside the others.
  package var hasBeside = false
  /// Errors by what failed, such as `send 503`.
  package var errors: [String: Int] = [:]
  /// The deliveries that did not come: each message and the user who was not told.
  package var missing: [String] = []

  /// From the moment that a message was due until the last of its polls told it, a sample for each message:
  /// messages sent through Perch, and at the chat server.
  package var untilLast = (sent: Samples(), fromServer: Samples())
  /// How often a follower was told of a message that it had been told of already.
  package var doubled = 0

  private static let percentiles: [Double] = [50, 95, 99, 100]
  private static let plotWidth = 60
  private static let missingShown = 10

  /// An empty report.
  package init() {}

  /// Whether everything that was asked for came.
  package var isClean: Bool { errors.isEmpty && missing.isEmpty && doubled == 0 }

  /// All of it.
  package var text: String {
    var lines = ["", title, "", LoadReport.row("ms", ["count", "p50", "p95", "p99", "most"])]
    let beside = all(\.beside)
    let rows: [(name: String, samples: Samples)] = [
      ("accepted", all(\.accepted)), ("delivered", all(\.delivered)),
      ("delivered from the chat server", all(\.deliveredFromServer)),
      ("to the last poll", untilLast.sent), ("the same from the chat server", untilLast.fromServer),
      ("pages", all(\.pages)),
    ]
    for row in rows { lines.append(LoadReport.row(row.name, LoadReport.cells(row.samples))) }
    if hasBeside { lines.append(LoadReport.row("accepted beside", LoadReport.cells(beside))) }
    if let share = beside.percent(within: 20) {
      lines += ["", "sends beside that were accepted within 20 ms: \(LoadReport.shown(share)) %"]
    }
    lines += ["", plot("delivered, p99 each second, ms") { $0.delivered.percentiles([99])?[0] ?? 0 }]
    lines.append(plot("memory, MB") { ($0.machine?.memoryBytes ?? 0) / 1_000_000 })
    lines += [
      "", machine,
      "errors: \(errorsText); deliveries that did not come: \(missing.count), that came twice: \(doubled)",
    ]
    lines += missing.prefix(LoadReport.missingShown).map { "not told: \($0)" }
    return lines.joined(separator: "\n") + "\n"
  }

  /// The line that is shown while the load runs; `elapsed` in seconds.
  package static func progress(
    _ second: Second, _ machine: Machine?, elapsed: Int, errors: Int
  ) -> String {
    let (accepted, delivered) = (second.accepted, second.delivered)
    return clock(elapsed)
      + " · \(accepted.count) accepted, p99 \(shown(accepted.percentiles([99])?[0])) ms"
      + " · \(delivered.count + second.deliveredFromServer.count) delivered, p99 "
      + "\(shown(delivered.percentiles([99])?[0])) ms"
      + " · \(shown(machine.map { $0.memoryBytes / 1_000_000 })) MB · \(errors) errors"
  }

  private var measured: ArraySlice<Second> { seconds.dropFirst(warmUp) }

  private func all(_ path: KeyPath<Second, Samples>) -> Samples {
    var all = Samples()
    for second in measured { all.add(second[keyPath: path]) }
    return all
  }

  /// Memory, processor and disk over the run.
  private var machine: String {
    let known = measured.indices.filter { seconds[$0].machine != nil }
    guard let from = known.first, let to = known.last, from < to, let first = seconds[from].machine,
      let last = seconds[to].machine
    else { return "the service's metrics could not be read" }
    let used = (last.processorMilliseconds - first.processorMilliseconds) / 10 / Double(to - from)
    let writes = last.writes.all - first.writes.all
    let share = writes > 0 ? 100 * (last.writes.within20 - first.writes.within20) / writes : 100
    let megabytes = { (bytes: Double) in LoadReport.shown(bytes / 1_000_000) + " MB" }
    let twoMinutes = seconds.count > 120 ? seconds[120].machine : nil
    let later = twoMinutes.map { "\(megabytes($0.memoryBytes)) after two minutes, " } ?? ""
    return "memory: \(megabytes(first.memoryBytes)) at first, \(later)"
      + "\(megabytes(last.memoryBytes)) at the end; processor: \(LoadReport.shown(used)) % of one; "
      + "cache: \(megabytes(first.cacheBytes)) at first, \(megabytes(last.cacheBytes)) at the end\n"
      + "writes that were durable within 20 ms: \(LoadReport.shown(share)) %"
  }

  private var errorsText: String {
    errors.isEmpty
      ? "none" : errors.sorted { $0.key < $1.key }.map { "\($0.value) × \($0.key)" }.joined(separator: ", ")
  }

  private func plot(_ name: String, _ value: (Second) -> Double) -> String {
    let values = measured.map(value)
    return "\(LoadReport.padded(name, 32)) \(Plot.line(values, width: LoadReport.plotWidth))"
      + "  0 to \(LoadReport.shown(values.max()))"
  }

  private static func cells(_ samples: Samples) -> [String] {
    ["\(samples.count)"]
      + (samples.percentiles(percentiles)?.map { shown($0) } ?? percentiles.map { _ in "–" })
  }

  private static func row(_ name: String, _ cells: [String]) -> String {
    padded(name, 32) + cells.map { String(repeating: " ", count: max(1, 10 - $0.count)) + $0 }.joined()
  }

  private static func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
  }

  /// A number with one digit after the point.
  private static func shown(_ value: Double?) -> String {
    guard let value else { return "–" }
    let tenths = Int((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
  }

  private static func clock(_ seconds: Int) -> String {
    let rest = seconds % 60
    return "\(seconds / 60):\(rest < 10 ? "0" : "")\(rest)"
  }
}
