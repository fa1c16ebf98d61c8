/// Draws values over time in one line of text.
package enum Plot {
  private static let bars = Array("▁▂▃▄▅▆▇█")

  /// A line of at most `width` bars. Each shows the largest of its share of the values, between 0 and the
  /// largest of all.
  package static func line(_ values: [Double], width: Int) -> String {
    guard let most = values.max(), most > 0 else {
      return String(repeating: "▁", count: min(width, values.count))
    }
    let count = min(width, values.count)
    return String(
      (0..<count).map { bar in
        let share = values[bar * values.count / count..<(bar + 1) * values.count / count]
        let height = (share.max() ?? 0) / most * Double(bars.count - 1)
        return bars[Int(height.rounded())]
      })
  }
}
