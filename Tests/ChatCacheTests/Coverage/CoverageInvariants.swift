import ChatModel

@testable import ChatCache

extension CoverageHistory {
  /// The rule that is broken after the last step; nil: none is.
  mutating func brokenRule() -> String? {
    if let complaint { return complaint }
    if let untiled = untiled() { return untiled }
    if table != Dictionary(uniqueKeysWithValues: coverage.rows.map { ($0.lo, $0) }) {
      return "the table does not say what the coverage says"
    }
    if Coverage(rows: coverage.rows) != coverage { return "reading the rows back gives another coverage" }
    let marks = NaiveLine.marks(of: coverage)
    for index in marks.indices where marks[index] != line.marks[index] {
      return "\(NaiveLine.positions[index]) is \(marks[index]), should be \(line.marks[index])"
    }
    for (index, position) in NaiveLine.positions.enumerated()
    where marks[index] == .covered || marks[index] == .unverified {
      if line.stored.contains(position) != line.upstream.contains(position) {
        return "covered, but the cache and the upstream differ at \(position)"
      }
    }
    return wrongPage(marks)
  }

  private func untiled() -> String? {
    let segments = coverage.segments
    guard segments.first?.range.lowerBound == .start, segments.last?.range.upperBound == .end else {
      return "the line is not covered to its ends"
    }
    for (older, newer) in zip(segments, segments.dropFirst()) {
      if older.range.upperBound.next != newer.range.lowerBound || older.range.upperBound == .end {
        return "a hole or an overlap"
      }
      if Coverage.areOne(older.content, newer.content) { return "neighbours of a kind" }
      if case .tail = older.content { return "a tail that is not last" }
    }
    guard case .tail? = segments.last?.content else { return "no tail" }
    let ids = segments.compactMap { $0.gap?.id }
    if Set(ids).count != ids.count || ids.contains(where: { $0 >= coverage.nextGapID }) {
      return "a gap's name given twice"
    }
    return nil
  }

  /// One random page, its rows found by walking position by position from the anchor.
  private mutating func wrongPage(_ marks: [NaiveLine.Mark]) -> String? {
    let positions = NaiveLine.positions
    let floor = random.chance(30) ? Int64.random(in: 0..<NaiveLine.times, using: &random) * 10 : 0
    let isInclusive = random.chance(50)
    let home = Int.random(in: 1..<(positions.count - 1), using: &random)
    let shown = { (index: Int) in marks[index] != .gap && positions[index].createdAt >= floor }
    var expected: Set<Int> = []
    let anchor: PageAnchor
    if random.chance(50) {
      // If the position right before is not in the world, the page would begin in a position that the world
      // lacks.
      guard isInclusive || positions[home].previous == positions[home - 1] else { return nil }
      anchor = .before(positions[home], isInclusive: isInclusive)
      var index = isInclusive ? home : home - 1
      while index >= 0, shown(index) {
        expected.insert(index)
        index -= 1
      }
    } else {
      guard isInclusive || positions[home].next == positions[home + 1] else { return nil }
      anchor = .after(positions[home], isInclusive: isInclusive)
      var index = isInclusive ? home : home + 1
      while index < positions.count, positions[index].createdAt < floor { index += 1 }
      // With a floor between two positions, the position right above the floor is not in the world.
      if floor > 0, index < positions.count, index != (isInclusive ? home : home + 1),
        marks[index] != marks[max(index - 1, 0)]
      {
        return nil
      }
      while index < positions.count, shown(index) {
        expected.insert(index)
        index += 1
      }
    }
    let plan = coverage.plan(anchor, floor: floor)
    let found = Set(positions.indices.filter { plan.range?.contains(positions[$0]) ?? false })
    if found != expected { return "page \(anchor), floor \(floor): \(plan), expected \(expected.sorted())" }
    return wrongEdges(plan, marks, floor, expected)
  }

  private func wrongEdges(
    _ plan: PagePlan, _ marks: [NaiveLine.Mark], _ floor: Int64, _ expected: Set<Int>
  ) -> String? {
    if plan.older == .beginning || plan.older == .floor, let low = expected.min() {
      let missed = NaiveLine.positions.indices.first {
        $0 < low && line.upstream.contains(NaiveLine.positions[$0])
          && NaiveLine.positions[$0].createdAt >= floor
      }
      if let missed { return "nothing older was said, but there is \(NaiveLine.positions[missed])" }
    }
    if case .gap(let gap) = plan.older, gap.range.upperBound < .first(at: floor) {
      return "a gap below the floor was named"
    }
    return nil
  }
}
