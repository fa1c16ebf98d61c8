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
      "0000000000000001.1.99999999999999999999", "0000000000000001.1.1\0",
    ])
  func strict(text: String) {
    #expect(EventCursor(text) == nil)
  }

  @Test("the epoch is told as cursors begin with it, zeros and all")
  func epoch() {
    let cursor = EventCursor(epoch: 0x91e, run: 1, sequence: 17)
    #expect(cursor.epochText == "000000000000091e" && cursor.description.hasPrefix(cursor.epochText))
  }
}
