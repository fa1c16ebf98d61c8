import ChatModel

/// How many rows a view holds at most (B22).
package struct WindowBound: Hashable, Sendable {
  /// The most rows.
  package let rows: Int
  /// The rows that a cut leaves: fewer, so that the next row does not cut the view again.
  package let rowsLeft: Int

  /// A bound; `rowsLeft` is at least one and at most `rows`.
  package init(rows: Int = Limits.windowRows, rowsLeft: Int = Limits.windowRowsLeft) {
    self.rows = rows
    self.rowsLeft = min(max(rowsLeft, 1), rows)
  }
}
