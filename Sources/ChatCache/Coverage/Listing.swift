import ChatModel

/// One authoritative answer of the upstream to "which messages are around here": the request and the
/// positions of the rows.
///
/// What it claims, that is, where it proves that the upstream has these rows and no others:
///
/// - The side towards the anchor is claimed up to the anchor: nothing lies between the anchor and the nearest
///   row.
/// - The far side of a page that came back full was cut by its limit, to which rows at the anchor count.
///   Other messages of the far row's millisecond may be beyond the cut, so that millisecond is not claimed.
///   If the anchor is a message of that millisecond, the upstream orders the millisecond by id, and the far
///   row itself is claimed.
/// - A page anchored at a message claims nothing if it has rows on a side that was not asked for, or rows of
///   one millisecond out of the order of their ids: then the server does not order equal times by id.
/// - A page that is not full claims to its far row only: the line's end is not the only reason for a short
///   page.
/// - Only an answer without any row proves that nothing follows in the directions asked.
/// - A listing from the newest end reaches the end of the line by its anchor.
package struct Listing: Sendable {
  /// The point from which the upstream lists.
  package enum Anchor: Hashable, Sendable {
    /// A moment later than any message.
    case newest
    /// A moment, ms.
    case time(Int64)
    /// A message.
    case message(Position)
  }

  /// The point from which the upstream listed.
  package let anchor: Anchor
  /// Rows asked for on the older side of the anchor.
  package let olderLimit: Int
  /// Rows asked for on the newer side of the anchor.
  package let newerLimit: Int
  /// Whether rows at the anchor itself were asked for.
  package let includesAnchor: Bool
  /// The oldest row that came.
  package let first: Position?
  /// The newest row that came.
  package let last: Position?
  private let olderCount: Int
  private let newerCount: Int
  private let anchorCount: Int
  private let areTiesOrdered: Bool

  /// A listing of this request, with the positions of its rows in the order of the answer.
  package init(
    anchor: Anchor, olderLimit: Int, newerLimit: Int, includesAnchor: Bool, rows: some Sequence<Position>
  ) {
    self.anchor = anchor
    self.olderLimit = olderLimit
    self.newerLimit = newerLimit
    self.includesAnchor = includesAnchor || anchor == .newest
    let asked = Listing.positions(of: anchor)
    var first: Position?
    var last: Position?
    var counts = (older: 0, at: 0, newer: 0)
    var before: Position?
    var areTiesOrdered = true
    for row in rows {
      if let before, before.createdAt == row.createdAt, row < before { areTiesOrdered = false }
      before = row
      if first.map({ row < $0 }) ?? true { first = row }
      if last.map({ row > $0 }) ?? true { last = row }
      if row < asked.lowerBound {
        counts.older += 1
      } else if row > asked.upperBound {
        counts.newer += 1
      } else {
        counts.at += 1
      }
    }
    self.first = first
    self.last = last
    olderCount = counts.older
    anchorCount = counts.at
    newerCount = counts.newer
    self.areTiesOrdered = areTiesOrdered
  }

  /// Whether neighbouring rows of one millisecond are in the order of their ids.
  package static func areTiesOrdered(_ rows: some Sequence<Position>) -> Bool {
    Listing(anchor: .newest, olderLimit: 0, newerLimit: 0, includesAnchor: false, rows: rows).areTiesOrdered
  }

  /// The newest `limit` messages.
  package static func newest(limit: Int, rows: some Sequence<Position>) -> Listing {
    Listing(anchor: .newest, olderLimit: limit, newerLimit: 0, includesAnchor: true, rows: rows)
  }

  /// Whether it proves that nothing is older than its rows.
  package var reachesBeginning: Bool { claim?.lowerBound == .start }

  /// The stretch in which the listing has all messages; up to `.end` if it reaches the end. Nil: it proves
  /// nothing.
  package var claim: ClosedRange<Position>? {
    if case .message = anchor {
      let isBeyond = olderLimit == 0 && olderCount > 0 || newerLimit == 0 && newerCount > 0
      guard areTiesOrdered, !isBeyond else { return nil }
    }
    let asked = Listing.positions(of: anchor)
    let older = olderClaim(below: asked)
    let newer = newerClaim(above: asked)
    guard isAnchorClaimed else { return older ?? newer }
    if anchor == .newest, let last {
      // A full page of one millisecond claims none of its rows, but nothing is newer than its last row.
      return min(older?.lowerBound ?? .end, last.next) ... .end
    }
    let low = older?.lowerBound ?? (endsAmongOlder ? first : nil) ?? asked.lowerBound
    return low...(newer?.upperBound ?? (endsAmongNewer ? last : nil) ?? asked.upperBound)
  }

  /// Whether the page's older end lies inside the anchor's millisecond. It then claims to its far row, like
  /// any short page.
  private var endsAmongOlder: Bool { !isPagedByID && olderLimit > 0 && olderCount == 0 && anchorCount > 0 }

  /// The same for its newer end.
  private var endsAmongNewer: Bool { !isPagedByID && newerLimit > 0 && newerCount == 0 && anchorCount > 0 }

  /// The part of the claim above the listing's last row. No row proves that these positions are in the past.
  /// Nil: there is no such part, or the anchor is a message at or above the claim's end. Such an anchor is
  /// the proof.
  package var open: ClosedRange<Position>? {
    guard let claim else { return nil }
    if case .message(let position) = anchor, claim.upperBound <= position { return nil }
    let low = last.map { max($0.next, claim.lowerBound) } ?? claim.lowerBound
    return low <= claim.upperBound ? low...claim.upperBound : nil
  }

  private func olderClaim(below asked: ClosedRange<Position>) -> ClosedRange<Position>? {
    guard olderLimit > 0, asked.lowerBound > .start else { return nil }
    let bound: Position
    if let first {
      guard olderCount > 0 else { return nil }
      let isCut = olderCount + anchorCount >= olderLimit
      bound = isCut && !isTiedToAnchor(first) ? Position.last(at: first.createdAt).next : first
    } else {
      bound = .start
    }
    return bound < asked.lowerBound ? bound...asked.lowerBound.previous : nil
  }

  private func newerClaim(above asked: ClosedRange<Position>) -> ClosedRange<Position>? {
    guard newerLimit > 0, asked.upperBound < .end else { return nil }
    let bound: Position
    if let last {
      guard newerCount > 0 else { return nil }
      let isCut = newerCount + anchorCount >= newerLimit
      bound = isCut && !isTiedToAnchor(last) ? Position.first(at: last.createdAt).previous : last
    } else {
      bound = .end
    }
    return bound > asked.upperBound ? asked.upperBound.next...bound : nil
  }

  /// Whether all rows at the anchor came: a page full of them may lack others of that millisecond.
  private var isAnchorClaimed: Bool {
    guard includesAnchor else { return false }
    guard case .time = anchor else { return true }
    let isCutOlder = olderLimit > 0 && olderCount == 0 && anchorCount >= olderLimit
    let isCutNewer = newerLimit > 0 && newerCount == 0 && anchorCount >= newerLimit
    return !isCutOlder && !isCutNewer
  }

  private var isPagedByID: Bool {
    if case .message = anchor { true } else { false }
  }

  /// Whether the anchor is a message of the row's millisecond.
  private func isTiedToAnchor(_ row: Position) -> Bool {
    if case .message(let position) = anchor { position.createdAt == row.createdAt } else { false }
  }

  private static func positions(of anchor: Anchor) -> ClosedRange<Position> {
    switch anchor {
    case .newest: .end ... .end
    case .time(let time): .first(at: time) ... .last(at: time)
    case .message(let position): position...position
    }
  }
}
