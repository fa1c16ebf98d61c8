import ChatModel

@testable import ChatCache

extension CoverageHistory {
  /// What does not hold after the last step; nil: all does.
  mutating func whatIsBroken() -> String? {
    if let complaint { return complaint }
    if let untiled = untiled() { return untiled }
    if table != Dictionary(uniqueKeysWithValues: coverage.rows.map { ($0.lo, $0) }) {
      return "the table does not say what the coverage says"
    }
    if Coverage(rows: coverage.rows) != coverage { return "reading the rows back gives another coverage" }
    let marks = NaiveLine.marks(of: coverage)
    for index in marks.indices where marks[index] != line.marks[index] {
      return "\(NaiveLine.places[index]) is \(marks[index]), should be \(line.marks[index])"
    }
    for (index, place) in NaiveLine.places.enumerated()
    where marks[index] == .covered || marks[index] == .unverified {
      if line.stored.contains(place) != line.upstream.contains(place) {
        return "covered, but the cache and the upstream differ at \(place)"
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

  /// One random page, its rows found by walking place by place from the anchor.
  private mutating func wrongPage(_ marks: [NaiveLine.Mark]) -> String? {
    let places = NaiveLine.places
    let floor = random.chance(30) ? Int64.random(in: 0..<NaiveLine.times, using: &random) * 10 : 0
    let isInclusive = random.chance(50)
    let home = Int.random(in: 1..<(places.count - 1), using: &random)
    let shown = { (index: Int) in marks[index] != .gap && places[index].createdAt >= floor }
    var expected: Set<Int> = []
    let anchor: PageAnchor
    if random.chance(50) {
      // Beside a place without a neighbour right before it, the page would begin in a place the world lacks.
      guard isInclusive || places[home].previous == places[home - 1] else { return nil }
      anchor = .before(places[home], isInclusive: isInclusive)
      var index = isInclusive ? home : home - 1
      while index >= 0, shown(index) {
        expected.insert(index)
        index -= 1
      }
    } else {
      guard isInclusive || places[home].next == places[home + 1] else { return nil }
      anchor = .after(places[home], isInclusive: isInclusive)
      var index = isInclusive ? home : home + 1
      while index < places.count, places[index].createdAt < floor { index += 1 }
      // A floor between two places: what is right above it is not in the world.
      if floor > 0, index < places.count, index != (isInclusive ? home : home + 1),
        marks[index] != marks[max(index - 1, 0)]
      {
        return nil
      }
      while index < places.count, shown(index) {
        expected.insert(index)
        index += 1
      }
    }
    let plan = coverage.plan(anchor, floor: floor)
    let found = Set(places.indices.filter { plan.range?.contains(places[$0]) ?? false })
    if found != expected { return "page \(anchor), floor \(floor): \(plan), expected \(expected.sorted())" }
    return wrongEdges(plan, marks, floor, expected)
  }

  private func wrongEdges(
    _ plan: PagePlan, _ marks: [NaiveLine.Mark], _ floor: Int64, _ expected: Set<Int>
  ) -> String? {
    if plan.older == .beginning || plan.older == .floor, let low = expected.min() {
      let missed = NaiveLine.places.indices.first {
        $0 < low && line.upstream.contains(NaiveLine.places[$0]) && NaiveLine.places[$0].createdAt >= floor
      }
      if let missed { return "nothing older was said, but there is \(NaiveLine.places[missed])" }
    }
    if case .gap(let gap) = plan.older, gap.range.upperBound < .first(at: floor) {
      return "a gap below the floor was named"
    }
    return nil
  }
}
