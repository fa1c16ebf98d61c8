/// What a client's view showed at the last two cursors it was answered with (B9): each thing's name and
/// version. Older cursors, and those of before a start, are not remembered.
package struct Known<Name: Hashable & Sendable>: Sendable {
  /// The view at one cursor.
  private struct Moment: Sendable {
    let cursor: Int64
    var shown: [Name: Int64]
  }

  /// Cursors remembered.
  package static var depth: Int { 2 }

  private var moments: [Moment] = []

  /// Nothing is remembered yet.
  package init() {}

  /// What was shown at `cursor`, if that is remembered.
  package func shown(at cursor: Int64) -> [Name: Int64]? {
    moments.last { $0.cursor == cursor }?.shown
  }

  /// What the client knew of `name` at `cursor`.
  package func knowledge(of name: Name, at cursor: Int64) -> Verdict.Knowledge {
    guard let shown = shown(at: cursor) else { return .unknown }
    return shown[name].map { .present(version: $0) } ?? .absent
  }

  /// The client was answered with `cursor`, at which the view shows this.
  package mutating func answered(at cursor: Int64, showing shown: [Name: Int64]) {
    moments.removeAll { $0.cursor == cursor }
    moments.append(Moment(cursor: cursor, shown: shown))
    if moments.count > Self.depth { moments.removeFirst(moments.count - Self.depth) }
  }

  /// A load call answered these: they count as shown at every cursor from then on (B17).
  package mutating func loaded(_ rows: [Name: Int64]) {
    for index in moments.indices { moments[index].shown.merge(rows) { $1 } }
  }

  /// The most things remembered of any moment.
  package var count: Int { moments.map(\.shown.count).max() ?? 0 }
}
