import ChatModel
import TestSupport
import Testing

@testable import ChatCache

/// What a page proves in which some items could not be read.
@Suite struct RunsTests {
  private static func record(_ position: Position) -> MessageRecord {
    MessageRecord(
      messageID: position.messageID, createdAt: position.createdAt, updatedAt: 0, kind: .user,
      isSilent: false, isReplyToChannel: false, sender: "", customType: "", requestID: "", mentions: .nobody,
      body: [])
  }

  /// A page of `line` without the items numbered `unread`.
  private static func page(
    _ line: [Position], _ unread: Set<Int>, _ window: MessageWindow
  ) -> MessageListing {
    var rows: [MessageRecord] = []
    var breaks: [Int] = []
    for (number, position) in line.enumerated() {
      if !unread.contains(number) {
        rows.append(record(position))
      } else if breaks.last != rows.count {
        breaks.append(rows.count)
      }
    }
    return MessageListing(
      window: window, rows: rows, isWhole: unread.isEmpty,
      isEndRead: breaks.last != rows.count || breaks.isEmpty, breaks: breaks, askedAt: 0)
  }

  private static func claims(_ page: MessageListing) -> [ClosedRange<Position>] {
    page.claims(page.window.listing(page.rows.map(\.position)))
  }

  @Test("B24: a claim leaves out the milliseconds beside an item that could not be read")
  func moment() throws {
    let line = [(10, 1), (20, 2), (20, 3), (20, 4), (30, 5), (40, 6)].map {
      Position(createdAt: $0, messageID: $1)
    }
    let page = Self.page(line, [2], MessageWindow(.newest, older: 100, newer: 0))
    let claims = Self.claims(page)
    #expect(claims.contains { $0.contains(line[4]) && $0.contains(line[5]) && $0.upperBound == .end })
    for position in line[1...3] { #expect(!claims.contains { $0.contains(position) }, "\(position)") }
  }

  @Test("B24: no claim has a place of what could not be read, whatever its millisecond, over 2 000 seeds")
  func nothingUnread() {
    var claimed = 0
    for seed in 1...2000 as ClosedRange<UInt64> {
      var random = SeededRandom(seed: seed)
      var time: Int64 = 1000
      let line = (0..<Int(random.next() % 30 + 1)).map { number in
        time += Int64(random.next() % 3)
        return Position(createdAt: time, messageID: Int64(number))
      }
      let unread = Set(line.indices.filter { _ in random.next() % 4 == 0 })
      let isNewest = random.next() % 2 == 0
      let window =
        isNewest
        ? MessageWindow(.newest, older: 100, newer: 0)
        : MessageWindow(.time(1000), older: 0, newer: 100)
      let claims = Self.claims(Self.page(line, unread, window))
      for number in unread {
        let position = line[number]
        // Its own place, and each place of its millisecond: the order within that is not known.
        let moment = line.filter { $0.createdAt == position.createdAt }
        #expect(
          !claims.contains { claim in moment.contains { claim.contains($0) } }, "seed \(seed), \(position)")
      }
      claimed += claims.count
    }
    #expect(claimed > 2000)
  }
}
