import Glibc

/// The figures as a Markdown table.
struct Table {
  private var rows = [["work", "unit", "ours", "peer", "", "ratio", "goal", "reached"]]

  /// Adds a line.
  mutating func add(_ figure: Figure) {
    let goal =
      switch figure.goal {
      case .atLeast(let bound): "≥ \(Table.short(bound))"
      case .atMost(let bound): "≤ \(Table.short(bound))"
      case nil: ""
      }
    rows.append([
      figure.title, figure.unit, Table.short(figure.ours), figure.peer.map(Table.short) ?? "–",
      figure.peerName,
      figure.ratio.map(Table.short) ?? "–", goal, figure.isReached.map { $0 ? "yes" : "no" } ?? "",
    ])
  }

  /// The whole table.
  var text: String {
    let rule = "|" + String(repeating: "---|", count: rows[0].count)
    let lines = rows.map { "| " + $0.joined(separator: " | ") + " |" }
    return ([lines[0], rule] + lines.dropFirst()).joined(separator: "\n")
  }

  /// The number without decimals from 100 on, else with one to three.
  private static func short(_ number: Double) -> String {
    guard number.isFinite else { return "–" }
    if number.magnitude >= 100 { return "\(Int(number.rounded()))" }
    let scale = number.magnitude >= 10 ? 10.0 : number.magnitude >= 1 ? 100.0 : 1000.0
    return "\((number * scale).rounded() / scale)"
  }
}
