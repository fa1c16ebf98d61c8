import Testing

@testable import ChatModel

@Suite struct EventCursorTests {
  @Test("B52: a cursor's text reads back as itself, whatever the numbers")
  func roundTrip() {
    let numbers: [Int64] = [1, 9, 10, 99, 100, 1_000_000_007, .max - 1, .max]
    for epoch in [0, 1, 0xDEAD_BEEF, UInt64.max] {
      for run in numbers {
        for sequence in numbers + [0] {
          let cursor = EventCursor(epoch: epoch, run: run, sequence: sequence)
          let text = "\(cursor)"
          let digits = String(epoch, radix: 16)
          #expect(
            text == String(repeating: "0", count: 16 - digits.count) + digits + ".\(run).\(sequence)")
          #expect(EventCursor(text) == cursor)
        }
      }
    }
  }

  @Test(
    "a text that no cursor has is refused",
    arguments: [
      "", ".", "..", "0", "now", "0000000000000001", "0000000000000001.", "0000000000000001.1",
      "0000000000000001.1.", "0000000000000001..1", "000000000000001.1.1", "00000000000000001.1.1",
      "000000000000000A.1.1", "000000000000000g.1.1", "0000000000000001.0.1", "0000000000000001.01.1",
      "0000000000000001.1.01", "0000000000000001.+1.1", "0000000000000001.-1.1", "0000000000000001.1.-1",
      "0000000000000001.1.1.", "0000000000000001.1.1 ", "0000000000000001.1.9223372036854775808",
      "0000000000000001.1.99999999999999999999", "0000000000000001.1.1\0", "0000000000000001.1.5.5",
      "0000000000000001.1.5.4", "0000000000000001.1.5.06", "0000000000000001.1.5.6.",
      "0000000000000001.1.5.6.7",
    ])
  func strict(text: String) {
    #expect(EventCursor(text) == nil)
  }

  @Test("B1: a cursor can know the connection up to a later sequence than the rest")
  func connection() throws {
    for (sequence, connection) in [(0, 1), (5, 17), (.max - 1, .max)] as [(Int64, Int64)] {
      let cursor = EventCursor(epoch: .max, run: .max, sequence: sequence).knowingConnection(upTo: connection)
      #expect("\(cursor)" == "ffffffffffffffff.\(Int64.max).\(sequence).\(connection)")
      #expect(EventCursor("\(cursor)") == cursor && cursor.connection == connection)
    }
    let now = EventCursor(epoch: 1, run: 1, sequence: 9)
    #expect(now.notAfter(nil) == now && now.notAfter(9) == now && now.notAfter(12) == now)
    #expect(now.notAfter(4).sequence == 4 && now.notAfter(4).connection == 9)
  }

  @Test("the epoch is told as cursors begin with it, zeros and all")
  func epoch() {
    let cursor = EventCursor(epoch: 0x91e, run: 1, sequence: 17)
    #expect(cursor.epochText == "000000000000091e" && cursor.description.hasPrefix(cursor.epochText))
  }
}
