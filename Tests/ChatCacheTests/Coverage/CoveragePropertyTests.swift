import ChatModel
import Glibc
import TestSupport
import Testing

@testable import ChatCache

/// Random histories of one channel, each step checked against the naive world. `PERCH_TORTURE_SEEDS` sets how
/// many seeds are tried.
@Suite struct CoveragePropertyTests {
  private static let seeds = getenv("PERCH_TORTURE_SEEDS").flatMap { UInt64(String(cString: $0)) } ?? 100

  @Test("B24: 300 random steps of each seed agree with one that marks every position by itself")
  func agreesWithNaiveWorld() throws {
    for seed in 1...Self.seeds {
      var history = CoverageHistory(seed: seed)
      for step in 0..<300 {
        let said = history.step()
        if let broken = history.brokenRule() {
          Issue.record("seed \(seed), step \(step), after \(said): \(broken)\n\(history.coverage.segments)")
          return
        }
      }
    }
  }
}

/// One channel's random life.
struct CoverageHistory {
  var random: SeededRandom
  var coverage = Coverage()
  var line = NaiveLine()
  var table: [Position: SegmentRow] = [:]
  /// The gaps whose filling was begun.
  var fills: [Int64] = []
  var generation: Int64 = 1
  var newestEver = -1
  var now: Int64 = 1000
  var complaint: String?

  init(seed: UInt64) {
    random = SeededRandom(seed: seed)
    for row in coverage.rows { table[row.lo] = row }
  }

  /// Makes one random step and returns its description.
  mutating func step() -> String {
    let old = coverage
    now += 1
    let said = change()
    if said == "a new channel" { return said }
    let changes = coverage.changes(from: old)
    for position in changes.removed where table.removeValue(forKey: position) == nil {
      complaint = "removed no row"
    }
    for row in changes.written { table[row.lo] = row }
    checkVisible(since: old)
    return said
  }

  private mutating func change() -> String {
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<18: return send()
    case 18..<24: return delete()
    case 24..<66: return list(filling: nil)
    case 66..<74: return fill()
    case 74..<80:
      generation += 1
      return "disconnect"
    case 80..<88: return carve()
    case 88..<92: return markUnverified()
    case 92..<94:
      for gap in coverage.gaps { if let gap = gap.gap { coverage.stopFill(gap.id) } }
      if coverage.gaps.contains(where: { $0.gap?.state == .filling }) { complaint = "a fill was not stopped" }
      return "restart"
    case 94..<98: return estimate()
    default:
      if random.chance(newestEver + 1 < NaiveLine.messages.count ? 5 : 80) {
        self = restarted()
        return "a new channel"
      }
      return "nothing"
    }
  }

  private func restarted() -> CoverageHistory {
    var fresh = CoverageHistory(seed: 0)
    fresh.random = random
    return fresh
  }

  /// Sends a message at the newest end. The cache gets it at once, or never.
  private mutating func send() -> String {
    let all = NaiveLine.messages
    guard newestEver + 1 < all.count else { return "full" }
    newestEver = min(all.count - 1, newestEver + Int.random(in: 1...3, using: &random))
    let position = all[newestEver]
    line.upstream.insert(position)
    guard random.chance(50) else { return "unheard \(position)" }
    line.stored.insert(position)
    coverage.arrive(at: position)
    if !line.isTailBegun, let index = NaiveLine.positions.firstIndex(of: position), line.marks[index] == .gap,
      !line.marks[index...].contains(where: { $0 != .gap })
    {
      for later in index..<line.marks.count { line.marks[later] = .tail }
      line.isTailBegun = true
    }
    return "arrival \(position)"
  }

  private mutating func delete() -> String {
    guard let gone = line.upstream.sorted().randomElement(using: &random) else { return "nothing to delete" }
    line.upstream.remove(gone)
    line.stored.remove(gone)
    return "deletion \(gone)"
  }

  private mutating func list(filling gap: Int64?) -> String {
    var anchor = Listing.Anchor.newest
    var limits = (older: Int.random(in: 1...6, using: &random), newer: 0)
    if random.chance(70) {
      if random.chance(50) {
        anchor = .time(Int64.random(in: 0...NaiveLine.times, using: &random) * 10)
      } else if let position = NaiveLine.messages.randomElement(using: &random) {
        anchor = .message(position)
      }
      let both = (Int.random(in: 1...6, using: &random), Int.random(in: 1...6, using: &random))
      limits = random.chance(30) ? both : random.chance(50) ? (both.0, 0) : (0, both.1)
    }
    let includes = anchor == .newest || random.chance(50)
    let dropped = random.chance(20) ? 1 : 0
    let rows = line.list(
      anchor, older: limits.older, newer: limits.newer, includesAnchor: includes, dropped: dropped)
    let listing = Listing(
      anchor: anchor, olderLimit: limits.older, newerLimit: limits.newer, includesAnchor: includes, rows: rows
    )
    let old = coverage
    coverage.claim(listing, now: now, generation: generation)
    if let gap { goOn(filling: gap, since: old) }
    follow(rows, anchor, limits, includes)
    return "listing \(anchor) \(limits) includes \(includes) rows \(rows)"
  }

  /// A gap is still being filled if it was before the listing and something is left of it.
  private mutating func goOn(filling gap: Int64, since old: Coverage) {
    let wasFilling = old.gap(gap)?.gap?.state == .filling
    let isLeft = coverage.gap(gap) != nil
    let goesOn = coverage.goOnFilling(gap, since: old, rows: 1)
    if goesOn != (wasFilling && isLeft) { complaint = "filling goes on: \(goesOn)" }
    if goesOn, coverage.gap(gap)?.gap?.state != .filling { complaint = "a gap that is not being filled" }
    if !goesOn { fills.removeAll { $0 == gap } }
  }

  /// Stores the same page in the naive world.
  private mutating func follow(
    _ rows: [Position], _ anchor: Listing.Anchor, _ limits: (older: Int, newer: Int), _ includes: Bool
  ) {
    let known = line.newestKnown
    var claimed = NaiveLine.positions.indices.filter {
      NaiveLine.proves(
        NaiveLine.positions[$0], anchor, older: limits.older, newer: limits.newer, includesAnchor: includes,
        rows: rows)
    }
    // An empty answer about both sides is one stretch only if it includes the anchor.
    let isEmptyForward = rows.isEmpty && limits.newer > 0 && (limits.older == 0 || includes)
    let reachesEnd = anchor == .newest || isEmptyForward
    if reachesEnd, anchor != .newest {
      guard let low = claimed.first, low <= known + 1 else { return store(rows) }
    } else if !reachesEnd {
      let last = rows.max().flatMap { NaiveLine.positions.firstIndex(of: $0) } ?? -1
      claimed.removeAll { $0 > max(known, last) }
    }
    if claimed.isEmpty, reachesEnd, anchor == .newest {
      complaint = "a listing of the newest end that claims nothing in a world with room above"
    }
    line.take(rows, claimed: claimed, reachesEnd: reachesEnd)
  }

  private mutating func store(_ rows: [Position]) { line.stored.formUnion(rows) }

  private mutating func fill() -> String {
    if fills.count < 2 || random.chance(30) {
      guard let gap = coverage.gaps.randomElement(using: &random)?.gap else { return "no gap" }
      let wasFilling = gap.state == .filling
      let isBegun = coverage.beginFill(gap.id)
      if isBegun == wasFilling { complaint = "a fill began twice" }
      if isBegun { fills.append(gap.id) }
      return "begin fill \(gap.id)"
    }
    return "fill: " + list(filling: random.one(of: fills))
  }

  private mutating func carve() -> String {
    if random.chance(5) {
      coverage.clear()
      line.marks = line.marks.map { _ in .gap }
      line.stored = []
      line.isTailBegun = false
      return "clear"
    }
    guard newestEver >= 0,
      let newest = NaiveLine.positions.firstIndex(of: NaiveLine.messages[newestEver])
    else { return "nothing to carve" }
    let low = Int.random(in: 0...newest, using: &random)
    let high = min(low + Int.random(in: 0...12, using: &random), newest)
    coverage.carve(NaiveLine.positions[low]...NaiveLine.positions[high])
    let hadTail = line.marks[0...high].contains(.tail)
    for index in low...high {
      line.marks[index] = .gap
      line.stored.remove(NaiveLine.positions[index])
    }
    if hadTail { for index in 0..<low where line.marks[index] == .tail { line.marks[index] = .gap } }
    return "carve \(NaiveLine.positions[low])...\(NaiveLine.positions[high])"
  }

  private mutating func markUnverified() -> String {
    let low = Int.random(in: 0..<NaiveLine.positions.count, using: &random)
    let high = Int.random(in: low..<NaiveLine.positions.count, using: &random)
    coverage.markUnverified(NaiveLine.positions[low]...NaiveLine.positions[high])
    for index in low...high where line.marks[index] == .covered { line.marks[index] = .unverified }
    return "unverified \(low)...\(high)"
  }

  private mutating func estimate() -> String {
    guard let gap = coverage.gaps.randomElement(using: &random)?.gap else { return "no gap" }
    let missing = random.chance(50) ? 301 : 300
    coverage.estimate(gap.id, missing: missing)
    if let now = coverage.gap(gap.id)?.gap, now.state == .huge, now.estimatedMissing != 301 {
      complaint = "huge without more than 300 missing"
    }
    return "estimate \(gap.id)"
  }

  private mutating func checkVisible(since old: Coverage) {
    guard old.nextGapID <= coverage.nextGapID else { return }
    let visible = coverage.becameVisible(since: old)
    for position in NaiveLine.positions {
      let did = !old.shows(position) && coverage.shows(position)
      if visible.contains(where: { $0.contains(position) }) != did { complaint = "visibility of \(position)" }
    }
  }
}
