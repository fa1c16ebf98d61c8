import ChatModel

/// The position and direction at which a client asks for a page of messages (B12).
package enum PageAnchor: Hashable, Sendable {
  /// Rows older than the position, newest first.
  case before(Position, isInclusive: Bool)
  /// Rows newer than the position, oldest first.
  case after(Position, isInclusive: Bool)
  /// Rows on both sides of the position, and the row at the position if inclusive.
  case around(Position, isInclusive: Bool)

  /// The newest rows.
  package static let newest = PageAnchor.before(.end, isInclusive: true)
}

/// The range of stored rows that one page may read, and what bounds it at both ends (B14).
///
/// The answer has all stored rows of `range` that the filters show, up to the limit. Only a page that read to
/// an end of `range` may say what bounds it there.
package struct PagePlan: Hashable, Sendable {
  /// What bounds the range at one end.
  package enum Edge: Hashable, Sendable {
    /// Nothing exists beyond: proven by an empty listing.
    case beginning
    /// Nothing exists beyond for this user (B23).
    case floor
    /// A gap, to be named in the answer.
    case gap(Segment)
    /// The tail is in the range: nothing is newer, as far as the tail can be trusted.
    case tail
    /// The requested position: nothing beyond it was requested.
    case anchor
  }

  /// The positions whose stored rows may be answered; nil: none.
  package let range: ClosedRange<Position>?
  /// What bounds the range below.
  package let older: Edge
  /// What bounds the range above.
  package let newer: Edge

  /// Whether an older page exists, given that this one read all rows down to the range's lower end.
  package func hasPrevious(isReadToEdge: Bool) -> Bool {
    !(isReadToEdge && (older == .beginning || older == .floor))
  }

  /// Whether a newer page may exist. `isReadToEdge`: this page has all rows up to the range's upper end.
  package func hasNext(isReadToEdge: Bool) -> Bool { !(isReadToEdge && newer == .tail) }
}

extension Coverage {
  /// Plans a page for a user whose history begins at `floor` ms (0: everything).
  package func plan(_ anchor: PageAnchor, floor: Int64 = 0) -> PagePlan {
    let bottom = Position.first(at: floor)
    switch anchor {
    case .before(let position, let isInclusive):
      guard isInclusive || position > .start else {
        return PagePlan(range: nil, older: .beginning, newer: .anchor)
      }
      let top = isInclusive ? position : position.previous
      let stretch = readable(from: top)
      let newer: PagePlan.Edge = top >= tailStart && top == .end ? .tail : .anchor
      return clip(stretch.range.map { $0.clamped(to: .start...top) }, stretch.older, newer, bottom)
    case .after(let position, let isInclusive):
      guard isInclusive || position < .end else { return PagePlan(range: nil, older: .anchor, newer: .tail) }
      let low = max(isInclusive ? position : position.next, bottom)
      let stretch = readable(from: low)
      return clip(stretch.range.map { $0.clamped(to: low ... .end) }, .anchor, stretch.newer, bottom)
    case .around(let position, _):
      let stretch = readable(from: max(position, bottom))
      return clip(stretch.range, stretch.older, stretch.newer, bottom)
    }
  }

  /// Whether a user whose history begins at `floor` ms may see the message at `position` among its neighbours
  /// (B18).
  package func shows(_ position: Position, floor: Int64) -> Bool {
    position.createdAt >= floor && shows(position)
  }

  /// The stretch without a gap around `position`. If that lies in a gap: nil, and the gap on both sides.
  private func readable(
    from position: Position
  ) -> (range: ClosedRange<Position>?, older: PagePlan.Edge, newer: PagePlan.Edge) {
    let home = index(of: position)
    let here = segment(home)
    if here.gap != nil { return (nil, .gap(here), .gap(here)) }
    var low = home
    while low > 0, segment(low - 1).gap == nil { low -= 1 }
    var high = home
    while high + 1 < stretches.count, segment(high + 1).gap == nil { high += 1 }
    return (
      stretches[low].start...segment(high).range.upperBound,
      low == 0 ? .beginning : .gap(segment(low - 1)),
      high + 1 == stretches.count ? .tail : .gap(segment(high + 1))
    )
  }

  private func clip(
    _ range: ClosedRange<Position>?, _ older: PagePlan.Edge, _ newer: PagePlan.Edge, _ bottom: Position
  ) -> PagePlan {
    guard bottom > .start else { return PagePlan(range: range, older: older, newer: newer) }
    // A gap that lies wholly below the floor counts as the floor.
    let isBelow: (PagePlan.Edge) -> Bool = { edge in
      if case .gap(let segment) = edge { segment.range.upperBound < bottom } else { edge == .beginning }
    }
    guard let range else {
      return PagePlan(
        range: nil, older: isBelow(older) ? .floor : older, newer: isBelow(newer) ? .floor : newer)
    }
    guard range.upperBound >= bottom else { return PagePlan(range: nil, older: .floor, newer: newer) }
    if range.lowerBound >= bottom {
      return PagePlan(range: range, older: isBelow(older) ? .floor : older, newer: newer)
    }
    return PagePlan(
      range: bottom...range.upperBound, older: older == .anchor ? .anchor : .floor, newer: newer)
  }
}
