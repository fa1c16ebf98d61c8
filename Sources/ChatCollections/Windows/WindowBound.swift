import ChatModel

/// How many rows a view holds at most (B22).
package struct WindowBound: Hashable, Sendable {
  /// So many.
  package let rows: Int
  /// To how many it is cut when it holds more: fewer, so that not each row that comes cuts it again.
  package let rowsLeft: Int

  /// A bound; `rowsLeft` is at least one and at most `rows`.
  package init(rows: Int = Limits.windowRows, rowsLeft: Int = Limits.windowRowsLeft) {
    self.rows = rows
    self.rowsLeft = min(max(rowsLeft, 1), rows)
  }
}
