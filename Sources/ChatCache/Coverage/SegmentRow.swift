import ChatModel

/// One segment as the table `segment` keeps it. The numbers of the enumerations are stored.
package struct SegmentRow: Hashable, Sendable {
  /// The kind of a segment.
  package enum Kind: Int64, Sendable { case covered = 0, gap, tail }

  /// The segment's first position: the row's key within the channel.
  package let lo: Position
  /// The segment's last position: one before the next row's `lo`. Stored for people who read the table.
  package let hi: Position
  /// The segment's kind.
  package let kind: Kind
  /// A gap's id. In the tail's row: the id of the channel's next gap.
  package let id: Int64?
  /// Why the messages of a gap are missing (`Gap.Reason`).
  package let reason: Int64?
  /// The state of a gap (`Gap.State`).
  package let state: Int64?
  /// The number of messages missing in a gap; nil: not counted.
  package let estimatedMissing: Int64?
  /// In the tail's row: when a listing last reached the end.
  package let confirmedAt: Int64?
  /// In the tail's row: the link's generation at that moment.
  package let generation: Int64?
  /// Whether a covered stretch has to be listed again, because changes may have been missed.
  package let isUnverified: Bool

  /// A row as the table has it.
  package init(
    lo: Position, hi: Position, kind: Kind, id: Int64? = nil, reason: Int64? = nil, state: Int64? = nil,
    estimatedMissing: Int64? = nil, confirmedAt: Int64? = nil, generation: Int64? = nil,
    isUnverified: Bool = false
  ) {
    self.lo = lo
    self.hi = hi
    self.kind = kind
    self.id = id
    self.reason = reason
    self.state = state
    self.estimatedMissing = estimatedMissing
    self.confirmedAt = confirmedAt
    self.generation = generation
    self.isUnverified = isUnverified
  }
}

extension Coverage {
  /// The writes that turn the old rows into those of the new coverage: first the removals, then the rows,
  /// each of which replaces a row with the same `lo`.
  package struct Changes: Hashable, Sendable {
    /// The first positions of rows to delete.
    package let removed: [Position]
    /// Rows that are new or changed.
    package let written: [SegmentRow]
    /// Whether nothing has to be written.
    package var isEmpty: Bool { removed.isEmpty && written.isEmpty }
  }

  /// The rows of this coverage, in order.
  package var rows: [SegmentRow] {
    segments.map { segment in
      switch segment.content {
      case .covered(let isUnverified):
        SegmentRow(
          lo: segment.range.lowerBound, hi: segment.range.upperBound, kind: .covered,
          isUnverified: isUnverified)
      case .gap(let gap):
        SegmentRow(
          lo: segment.range.lowerBound, hi: segment.range.upperBound, kind: .gap, id: gap.id,
          reason: gap.reason.rawValue, state: gap.state.rawValue,
          estimatedMissing: gap.estimatedMissing.map(Int64.init))
      case .tail(let tail):
        SegmentRow(
          lo: segment.range.lowerBound, hi: segment.range.upperBound, kind: .tail, id: nextGapID,
          confirmedAt: tail.confirmedAt, generation: tail.generation)
      }
    }
  }

  /// Reads a channel's rows, in order of `lo`. Nil: the rows do not tile the line, or have values that no
  /// coverage has. Such a channel is reset to one gap (B64).
  package init?(rows: some Sequence<SegmentRow>) {
    var tiling = Tiling()
    for row in rows { tiling.lay(row) }
    guard let coverage = tiling.coverage else { return nil }
    self = coverage
  }

  /// Takes a channel's rows in order, and checks that each begins where the one before it ends.
  struct Tiling {
    private var stretches: [Stretch] = []
    private var expected = Position.start
    private var nextGapID: Int64?
    private var ids: Set<Int64> = []
    private var isBroken = false
    /// The highest id in any row.
    private(set) var highestID: Int64 = 0

    init() { stretches.reserveCapacity(4) }

    /// Whether no row was laid.
    var isEmpty: Bool { stretches.isEmpty && !isBroken }

    /// Lays the next row.
    mutating func lay(_ row: SegmentRow) {
      if let id = row.id, id > highestID { highestID = id }
      if !isBroken { isBroken = !fits(row) }
    }

    private mutating func fits(_ row: SegmentRow) -> Bool {
      guard row.lo == expected, row.hi >= row.lo, nextGapID == nil else { return false }
      guard let content = Coverage.content(of: row) else { return false }
      if let last = stretches.last, Coverage.areOne(last.content, content) { return false }
      if case .gap(let gap) = content, !ids.insert(gap.id).inserted { return false }
      if case .tail = content { nextGapID = row.id }
      stretches.append(Stretch(start: row.lo, content: content))
      expected = row.hi.next
      return row.kind == .tail || row.hi != .end
    }

    /// The coverage that the rows describe; nil: they do not tile the line.
    var coverage: Coverage? {
      guard !isBroken, let nextGapID, expected == .end, ids.allSatisfy({ $0 < nextGapID }) else { return nil }
      return Coverage(stretches: stretches, nextGapID: nextGapID)
    }
  }

  /// The coverage of a channel whose rows could not be read: one gap with the id `nextGapID`.
  package static func reset(nextGapID: Int64) -> Coverage {
    let gap = Gap(id: nextGapID, reason: .evicted, state: .idle)
    return Coverage(
      stretches: [
        Stretch(start: .start, content: .gap(gap)), Stretch(start: .end, content: .tail(.unconfirmed)),
      ],
      nextGapID: nextGapID + 1)
  }

  /// The writes that turn `old` into this coverage.
  package func changes(from old: Coverage) -> Changes {
    let before = old.rows
    let after = rows
    let kept = Set(before)
    let positions = Set(after.map(\.lo))
    return Changes(
      removed: before.map(\.lo).filter { !positions.contains($0) },
      written: after.filter { !kept.contains($0) })
  }

  fileprivate static func content(of row: SegmentRow) -> Segment.Content? {
    switch row.kind {
    case .covered: return .covered(isUnverified: row.isUnverified)
    case .gap:
      guard let id = row.id, let reason = row.reason.flatMap(Gap.Reason.init(rawValue:)),
        let state = row.state.flatMap(Gap.State.init(rawValue:))
      else { return nil }
      return .gap(
        Gap(id: id, reason: reason, state: state, estimatedMissing: row.estimatedMissing.map(Int.init)))
    case .tail:
      guard row.id != nil, row.hi == .end, let generation = row.generation else { return nil }
      return .tail(Tail(confirmedAt: row.confirmedAt, generation: generation))
    }
  }
}
