import ChatModel
import TestSupport
import Testing

@testable import ChatCache

/// Listings in parts: the same rows and the same proof, with a true state after each part.
@Suite struct ListingPartsTests {
  @Test("B24: the parts of 2 000 random listings have their rows, and prove what they prove")
  func partsProveTheWhole() {
    var random = SeededRandom(seed: 24)
    var divided = 0
    for _ in 0..<2_000 {
      var line = NaiveLine()
      line.upstream = Set(NaiveLine.messages.filter { _ in random.chance(60) })
      let listing = listing(of: line, &random)
      let parts = listing.parts(ofRows: Int.random(in: 1...6, using: &random))
      if parts.count > 1 { divided += 1 }
      let inOrder = listing.window.newer == 0 ? parts.reversed() : parts
      #expect(inOrder.flatMap(\.rows) == listing.rows)
      let proven = parts.map { self.proven(by: $0) }
      #expect(proven.joined().sorted() == self.proven(by: listing), "\(listing.window) in \(parts.count)")
      for (part, proven) in zip(parts, proven).dropLast() {
        #expect(part.rows.allSatisfy { proven.contains($0.position) }, "what it stores it also shows")
      }
      var atOnce = listing.window.anchor == .newest ? Coverage() : coverage(&random)
      var byParts = atOnce
      atOnce.claim(proof(of: listing), now: 1, generation: 1)
      for part in parts { byParts.claim(proof(of: part), now: 1, generation: 1) }
      #expect(NaiveLine.marks(of: byParts) == NaiveLine.marks(of: atOnce), "\(listing.window)")
    }
    #expect(divided > 500)
  }

  @Test("While clients write, a listing is stored in parts, unless a part of it would show a gap")
  func besideClients() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let rows = (1...100).map { ChannelWithMessages.message($0, at: $0 * 10) }
    func sizes(_ anchor: Listing.Anchor, _ context: ListingContext) throws -> [Int] {
      let listing = MessageListing(
        window: MessageWindow(anchor, older: 100, newer: 0), rows: rows, isWhole: true,
        askedAt: world.cache.cursor.sequence)
      return try world.cache.commits(of: [listing], in: world.url, context).map { $0.flatMap(\.rows).count }
    }
    let context = ListingContext(source: .apiResult, generation: 1)
    #expect(try sizes(.newest, context) == [100], "nobody writes")
    try world.cache.accept { try $0.acknowledge(world.alice) }
    #expect(try sizes(.newest, context) == [25, 25, 25, 25])
    try world.listNewest([ChannelWithMessages.message(1, at: 10)], limit: 2)
    #expect(try sizes(.newest, context) == [100], "something older is cached")
    #expect(try sizes(.time(1000), context) == [25, 25, 25, 25])
    var settling = context
    settling.settlesDoubts = true
    #expect(try sizes(.time(1000), settling) == [100])
    #expect(
      try sizes(.time(1000), ListingContext(source: .apiResult, generation: 1, hugeMissing: 400)) == [100])
  }

  @Test("A listing in which something could not be read, or of both sides of a moment, stays whole")
  func staysWhole() {
    let rows = (1...10).map { ChannelWithMessages.message($0, at: $0) }
    let window = MessageWindow(.newest, older: 10, newer: 0)
    var listing = MessageListing(window: window, rows: rows, isWhole: true, askedAt: 1)
    #expect(listing.parts(ofRows: 5).map(\.rows.count) == [5, 5])
    listing.isWhole = false
    #expect(listing.parts(ofRows: 5) == [listing])
    (listing.isWhole, listing.isEndRead) = (true, false)
    #expect(listing.parts(ofRows: 5) == [listing])
    (listing.isEndRead, listing.breaks) = (true, [3])
    #expect(listing.parts(ofRows: 5) == [listing])
    listing.breaks = []
    listing.window = MessageWindow(.time(5), older: 10, newer: 10)
    #expect(listing.parts(ofRows: 5) == [listing])
    listing.window = MessageWindow(.newest, older: 10, newer: 0)
    listing.rows.reverse()
    #expect(listing.parts(ofRows: 5) == [listing])
  }

  private func listing(of line: NaiveLine, _ random: inout SeededRandom) -> MessageListing {
    let limit = Int.random(in: 1...20, using: &random)
    let time = Int64.random(in: 0..<NaiveLine.times, using: &random) * 10
    let anchors: [Listing.Anchor] = [.newest, .time(time), .message(Position(createdAt: time, messageID: 2))]
    let anchor = anchors[Int.random(in: 0..<3, using: &random)]
    let isOlder = anchor == .newest || random.chance(50)
    let window = MessageWindow(
      anchor, older: isOlder ? limit : 0, newer: isOlder ? 0 : limit,
      includesAnchor: anchor == .newest || random.chance(50))
    let rows = line.list(
      anchor, older: window.older, newer: window.newer, includesAnchor: window.includesAnchor,
      dropped: random.chance(20) ? 1 : 0)
    let records = rows.map { position in
      var record = ChannelWithMessages.message(position.messageID, at: position.createdAt)
      record.body = []
      return record
    }
    return MessageListing(window: window, rows: records, isWhole: true, askedAt: 1)
  }

  private func proof(of listing: MessageListing) -> Listing {
    listing.window.listing(listing.rows.map(\.position))
  }

  private func proven(by listing: MessageListing) -> [Position] {
    NaiveLine.positions.filter { position in
      NaiveLine.proves(
        position, listing.window.anchor, older: listing.window.older, newer: listing.window.newer,
        includesAnchor: listing.window.includesAnchor, rows: listing.rows.map(\.position))
    }
  }

  /// A coverage with some covered segments, and perhaps a known end.
  private func coverage(_ random: inout SeededRandom) -> Coverage {
    var coverage = Coverage()
    for _ in 0..<Int.random(in: 0...3, using: &random) {
      let low = Int.random(in: 0..<NaiveLine.messages.count, using: &random)
      let high = min(low + Int.random(in: 0...6, using: &random), NaiveLine.messages.count - 1)
      coverage.cover(NaiveLine.messages[low]...NaiveLine.messages[high], generation: 1)
    }
    return coverage
  }
}
