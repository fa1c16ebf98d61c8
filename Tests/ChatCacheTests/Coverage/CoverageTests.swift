import ChatModel
import Testing

@testable import ChatCache

/// Coverage in the situations that the rules name.
@Suite struct CoverageTests {
  private func position(_ time: Int64, _ id: Int64 = 1) -> Position {
    Position(createdAt: time, messageID: id)
  }

  private func newest(_ times: ClosedRange<Int64>, limit: Int = 100) -> Listing {
    .newest(limit: limit, rows: times.map { position($0) })
  }

  private func known(_ times: ClosedRange<Int64>) -> Coverage {
    var coverage = Coverage()
    coverage.claim(newest(times), now: 1, generation: 1)
    return coverage
  }

  @Test("B24: the boundary millisecond of a page cut by its limit is not claimed")
  func cutMillisecond() {
    var coverage = Coverage()
    coverage.claim(newest(11...13, limit: 3), now: 1, generation: 1)
    #expect(!coverage.shows(position(11)))
    #expect(coverage.shows(position(12)))
  }

  /// The claim of a page of messages older than a message.
  private func older(than anchor: Position, _ rows: [Position]) -> ClosedRange<Position>? {
    Listing(
      anchor: .message(anchor), olderLimit: rows.count, newerLimit: 0, includesAnchor: false, rows: rows
    ).claim
  }

  @Test("B24: a page by message that is cut in another millisecond than its message's does not claim that")
  func cutByID() {
    let claim = Position.last(at: 7).next...position(20).previous
    #expect(older(than: position(20), [position(7, 3), position(7, 4), position(9)]) == claim)
    #expect(older(than: position(20), [position(7, 3), position(7, 4)]) == claim)
  }

  @Test("B24: inside its message's millisecond a page by message claims its far row")
  func cutInsideTie() {
    #expect(older(than: position(7, 9), [position(7, 3), position(7, 4)]) == position(7, 3)...position(7, 8))
    let newer = Listing(
      anchor: .message(position(7, 2)), olderLimit: 0, newerLimit: 2, includesAnchor: false,
      rows: [position(7, 3), position(7, 4)])
    #expect(newer.claim == position(7, 3)...position(7, 4))
  }

  @Test("B24: a page by message claims nothing if its ties are in another order than that of their ids")
  func unstableTies() {
    #expect(older(than: position(7, 9), [position(7, 4), position(7, 3)]) == nil)
    #expect(older(than: position(20), [position(7, 1), position(8, 4), position(8, 3)]) == nil)
    #expect(older(than: position(7, 9), [position(7, 3), position(7, 10)]) == nil, "it is on the other side")
  }

  @Test("B14: a short page proves no beginning, an empty one does")
  func beginning() {
    var coverage = known(20...25)
    let page = coverage.plan(.newest)
    #expect(page.hasPrevious(isReadToEdge: true))
    #expect(page.older == .gap(coverage.gaps[0]))
    coverage.claim(
      Listing(anchor: .message(position(20)), olderLimit: 5, newerLimit: 0, includesAnchor: false, rows: []),
      now: 2, generation: 1)
    let proven = coverage.plan(.newest)
    #expect(proven.older == .beginning)
    #expect(!proven.hasPrevious(isReadToEdge: true))
    #expect(proven.hasPrevious(isReadToEdge: false))
  }

  @Test("B25: a listing of the newest end that joins the old end closes the tail")
  func joins() {
    var coverage = known(20...25)
    coverage.claim(newest(24...28, limit: 5), now: 9, generation: 2)
    #expect(coverage.gaps.count == 1)
    #expect(coverage.tail == Tail(confirmedAt: 9, generation: 2))
    #expect(coverage.segment(at: position(20)).range.upperBound == position(28))
  }

  @Test(
    "B25: a listing that does not join writes a gap, with the reason",
    arguments: [(1, Gap.Reason.limited), (2, Gap.Reason.disconnected)] as [(Int64, Gap.Reason)])
  func doesNotJoin(generation: Int64, reason: Gap.Reason) {
    var coverage = known(20...25)
    coverage.claim(newest(30...32, limit: 3), now: 9, generation: generation)
    let gap = coverage.gaps[1]
    #expect(gap.range == position(25).next...Position.last(at: 30))
    #expect(gap.gap?.reason == reason)
    #expect(coverage.plan(.newest).older == .gap(gap))
    #expect(coverage.plan(.after(position(20), isInclusive: false)).newer == .gap(gap))
  }

  @Test("B25: the tail is live in the link's present generation and for twice its poll interval")
  func liveness() {
    let tail = Tail(confirmedAt: 1000, generation: 4)
    #expect(tail.state(generation: 4, isOffline: false, now: 2999, interval: 1000) == .live)
    #expect(tail.state(generation: 4, isOffline: false, now: 3000, interval: 1000) == .stale)
    #expect(tail.state(generation: 5, isOffline: false, now: 1001, interval: 1000) == .stale)
    #expect(tail.state(generation: 4, isOffline: true, now: 1001, interval: 1000) == .offline)
    #expect(Tail.unconfirmed.state(generation: 0, isOffline: false, now: 0, interval: 1000) == .stale)
  }

  @Test("B14: the newest page begins with the rows of the tail")
  func tailRows() {
    var coverage = known(20...25)
    coverage.arrive(at: position(40))
    let plan = coverage.plan(.newest)
    #expect(plan.range?.contains(position(40)) == true)
    #expect(plan.range?.contains(position(20)) == true)
    #expect(plan.newer == .tail)
    #expect(!plan.hasNext(isReadToEdge: true))
    #expect(plan.hasNext(isReadToEdge: false))
  }

  @Test("B14: a page asked for inside a gap is empty and names it")
  func insideGap() {
    let coverage = known(20...25)
    let plan = coverage.plan(.before(position(10), isInclusive: true))
    #expect(plan.range == nil)
    #expect(plan.older == .gap(coverage.gaps[0]))
  }

  @Test("B23: below the floor nothing exists for that user, and a gap there is none")
  func floor() {
    var coverage = known(20...25)
    #expect(coverage.plan(.newest, floor: 22).range?.lowerBound == .first(at: 22))
    #expect(coverage.plan(.newest, floor: 22).older == .floor)
    #expect(coverage.plan(.newest, floor: 21).older == .floor)
    #expect(!coverage.shows(position(21), floor: 22))
    coverage.claim(
      Listing(anchor: .message(position(20)), olderLimit: 5, newerLimit: 0, includesAnchor: false, rows: []),
      now: 2, generation: 1)
    #expect(coverage.plan(.before(position(10), isInclusive: true), floor: 22).range == nil)
  }

  @Test("B24: a new stretch swallows old stretches and the gaps between them")
  func swallows() {
    var coverage = known(20...25)
    coverage.claim(newest(40...45, limit: 6), now: 2, generation: 2)
    coverage.carve(position(42)...position(43))
    #expect(coverage.gaps.count == 3)
    coverage.claim(newest(19...45), now: 3, generation: 3)
    #expect(coverage.gaps.count == 1)
    #expect(coverage.segments.filter(\.isCovered).map(\.range) == [position(19)...position(45)])
  }

  @Test("B26: a gap is filled once at a time, and what is left of it is still being filled")
  func filling() {
    let old = known(20...25)
    var new = old
    let begins = [new.beginFill(1), new.beginFill(1), new.beginFill(99)]
    #expect(begins == [true, false, false])
    let begun = new
    let page = Listing(
      anchor: .message(position(20)), olderLimit: 3, newerLimit: 0, includesAnchor: false,
      rows: [position(14), position(15)])
    new.claim(page, now: 3, generation: 1)
    let goesOn = new.goOnFilling(1, since: begun, rows: 2)
    #expect(goesOn)
    #expect(new.gap(1)?.gap?.state == .filling)
    #expect(new.gap(1)?.range == .start...position(14).previous)
    // Rows stored before became visible, too.
    #expect(new.becameVisible(since: old) == [position(14)...position(20).previous])
  }

  @Test("B26: a listing does not take up a filling again that was stopped meanwhile")
  func stopped() {
    var coverage = known(20...25)
    let isBegun = coverage.beginFill(1)
    coverage.stopFill(1)
    let before = coverage
    let goesOn = coverage.goOnFilling(1, since: before, rows: 2)
    #expect(isBegun && !goesOn && coverage == before)
  }

  @Test("B28: 301 missing messages make a gap huge, 300 do not, and a stopped fill of it is huge again")
  func huge() {
    var coverage = known(20...25)
    coverage.claim(newest(40...45, limit: 6), now: 2, generation: 2)
    let id = coverage.gaps[1].gap?.id ?? 0
    coverage.estimate(id, missing: 300)
    #expect(coverage.gap(id)?.gap?.state == .idle)
    coverage.estimate(id, missing: 301)
    #expect(coverage.gap(id)?.gap?.state == .huge)
    let isBegun = coverage.beginFill(id)
    coverage.stopFill(id)
    #expect(isBegun)
    #expect(coverage.gap(id)?.gap?.state == .huge)
  }

  @Test("B31: an unverified stretch is served, and verified by listing it again")
  func unverified() {
    var coverage = known(20...30)
    coverage.markUnverified(.start...position(25))
    #expect(coverage.shows(position(22)))
    #expect(coverage.isUnverified(in: position(22)...position(23)))
    #expect(!coverage.isUnverified(in: position(26)...position(30)))
    #expect(coverage.unverified == [position(20)...position(25)])
    coverage.claim(newest(20...30), now: 2, generation: 1)
    #expect(coverage.unverified.isEmpty)
  }

  @Test("B25: asking before a moment in the future claims nothing after the last row")
  func future() {
    var coverage = known(20...25)
    coverage.claim(
      Listing(
        anchor: .time(9000), olderLimit: 3, newerLimit: 0, includesAnchor: true,
        rows: (24...26).map { position($0) }),
      now: 2, generation: 1)
    #expect(coverage.tailStart == position(26).next)
  }

  @Test("B64: rows that do not tile the line are not read")
  func broken() {
    var coverage = known(20...25)
    coverage.carve(position(21)...position(22))
    let rows = coverage.rows
    #expect(Coverage(rows: rows) == coverage)
    for index in rows.indices {
      var fewer = rows
      fewer.remove(at: index)
      #expect(Coverage(rows: fewer) == nil)
      #expect(Coverage(rows: rows[0...index] + rows[index...]) == nil)
    }
    #expect(Coverage(rows: [SegmentRow]()) == nil)
  }

  @Test("B24, B35: beside unreadable items nothing is proven of the millisecond that the limit may have cut")
  func cutBesideUnreadable() {
    // Of the first millisecond the page shows one of several, because an unreadable item took a place.
    let rows = [(7, 5), (9, 6), (10, 7), (11, 8)].map { ChannelWithMessages.message($0, at: $1) }
    for breaks in [[0], [1], [2]] {
      let listing = MessageListing(
        window: MessageWindow(.newest, older: 5, newer: 0), rows: rows, isWhole: false, breaks: breaks,
        askedAt: 0)
      let claims = listing.claims(listing.window.listing(rows.map(\.position)))
      var coverage = Coverage()
      coverage.claimRuns(listing, now: 9, generation: 1, isOutdated: false)
      for id in Int64(1)...8 {
        let position = Position(createdAt: 5, messageID: id)
        #expect(!claims.contains { $0.contains(position) }, "\(breaks)")
        #expect(!coverage.isCovered(position), "\(breaks)")
      }
      #expect(claims.contains { $0.contains(rows[3].position) } && coverage.isCovered(rows[3].position))
    }
  }
}

extension Coverage {
  fileprivate func isCovered(_ position: Position) -> Bool {
    segments.contains { $0.range.contains(position) && $0.isCovered }
  }
}
