import ChatCache
import ChatModel
import Testing

@Suite struct ReadThroughTests {
  private let covered: Coverage = {
    var coverage = Coverage()
    let rows = (1...100).map { Position(createdAt: Int64(1000 + $0), messageID: Int64($0)) }
    coverage.claim(.newest(limit: 100, rows: rows), now: 5_000, generation: 1)
    return coverage
  }()

  private func found(
    _ coverage: Coverage, _ anchor: PageAnchor, isOlderEdgeMet: Bool = false, isNewerEdgeMet: Bool = true,
    tail: Tail.State = .live
  ) -> ReadThrough.Found {
    ReadThrough.Found(
      anchor, coverage.plan(anchor), isOlderEdgeMet: isOlderEdgeMet, isNewerEdgeMet: isNewerEdgeMet,
      tail: tail)
  }

  @Test("B15: a page that is covered asks nobody, unless it is told to")
  func coveredPage() {
    var usual = ReadThrough(rows: 30)
    #expect(usual.next(found(covered, .newest)) == nil)
    var forced = ReadThrough(.always, rows: 30)
    #expect(forced.next(found(covered, .newest)) == .newest)
    #expect(forced.next(found(covered, .newest)) == nil, "once")
  }

  @Test(
    "B15: a tail that is not live is asked for once, and a page that met its gap asks for what lies below")
  func tailThenGap() {
    var through = ReadThrough(rows: 150)
    let stale = found(covered, .newest, isOlderEdgeMet: true, tail: .stale)
    #expect(through.next(stale) == .newest)
    let edge = Position.last(at: 1001).next
    #expect(through.next(stale) == .older(than: edge, rows: 200))
    #expect(through.next(stale) == .older(than: edge, rows: 200))
    #expect(through.next(stale) == nil, "at most 3 pages for one request")
  }

  @Test("B15: a position inside a gap is asked for itself, on the side that is wanted")
  func insideGap() {
    let position = Position(createdAt: 500, messageID: 7)
    var older = ReadThrough(rows: 30)
    #expect(
      older.next(found(covered, .before(position, isInclusive: false))) == .older(than: position, rows: 100))
    var newer = ReadThrough(rows: 30)
    #expect(
      newer.next(found(covered, .after(position, isInclusive: true)))
        == .newer(than: position.previous, rows: 100))
    var around = ReadThrough(rows: 30)
    #expect(
      around.next(found(covered, .around(position, isInclusive: true))) == .around(500, older: 50, newer: 50))
  }

  @Test("B15: only-if-cached asks nobody, whatever is missing")
  func onlyIfCached() {
    var through = ReadThrough(.never, rows: 30)
    #expect(through.next(found(Coverage(), .newest, tail: .offline)) == nil)
  }

  @Test("B15: nothing covered at all: the newest page is asked for")
  func nothing() {
    var through = ReadThrough(rows: 30)
    #expect(through.next(found(Coverage(), .newest, tail: .stale)) == .newest)
  }
}
