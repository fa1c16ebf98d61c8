import ChatCache
import ChatModel
import Testing

@Suite struct OvertakenTests {
  private func rows(_ ids: ClosedRange<Int64>, at time: Int64? = nil) -> [Position] {
    ids.map { Position(createdAt: time ?? 1_000 + $0, messageID: $0) }
  }

  @Test("B24: a page that ends inside its anchor's millisecond claims to its far row and no further")
  func shortInsideTheAnchor() {
    // The answer has ten of a millisecond's thirty messages, although twenty were requested.
    let newer = Listing(
      anchor: .time(500), olderLimit: 20, newerLimit: 20, includesAnchor: true, rows: rows(1...10, at: 500))
    #expect(newer.claim?.upperBound == Position(createdAt: 500, messageID: 10))
    let older = Listing(
      anchor: .time(500), olderLimit: 100, newerLimit: 0, includesAnchor: true, rows: rows(21...30, at: 500))
    #expect(older.claim == Position(createdAt: 500, messageID: 21)...Position.last(at: 500))
    let proven = Listing(
      anchor: .time(500), olderLimit: 100, newerLimit: 0, includesAnchor: true,
      rows: rows(20...20, at: 499) + rows(21...30, at: 500))
    #expect(
      proven.claim?.lowerBound == Position(createdAt: 499, messageID: 20), "an older row proves the moment")
  }

  @Test("B25: a listing overtaken by newer messages does not cover the gap that came to be meanwhile")
  func overtaken() {
    var coverage = Coverage()
    coverage.claim(.newest(limit: 100, rows: rows(1...20)), now: 1, generation: 1)
    // Twenty newer messages are unseen, and a full newest page follows them.
    coverage.claim(.newest(limit: 10, rows: rows(41...50)), now: 2, generation: 1)
    let gaps = coverage.gaps.map(\.range)
    // An answer to an earlier request says that no message follows the twentieth.
    let late = [
      Listing.newest(limit: 100, rows: rows(1...20)),
      Listing(
        anchor: .message(rows(20...20)[0]), olderLimit: 0, newerLimit: 100, includesAnchor: false, rows: []),
      Listing(
        anchor: .time(1_030), olderLimit: 100, newerLimit: 0, includesAnchor: true, rows: rows(1...20)),
    ]
    for listing in late {
      #expect(listing.open != nil)
      coverage.claim(listing, now: 3, generation: 1, isOutdated: true)
      #expect(coverage.gaps.map(\.range) == gaps)
      #expect(coverage.tail.confirmedAt == 2)
    }
  }

  @Test("B24: what lies before a message that was the anchor is in the past, whatever was stored since")
  func beforeAMessage() {
    let listing = Listing(
      anchor: .message(rows(30...30)[0]), olderLimit: 5, newerLimit: 0, includesAnchor: false,
      rows: rows(25...29))
    #expect(listing.open == nil)
  }
}
