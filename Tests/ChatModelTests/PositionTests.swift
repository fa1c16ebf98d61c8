import Testing

@testable import ChatModel

@Suite struct PositionTests {
  @Test("B12: a position's text order is the message order, ties in time included")
  func textOrder() {
    var random = SystemRandomNumberGenerator()
    var positions: [Position] = [.start, .end]
    for _ in 0..<2000 {
      let near = Int64.random(in: 0...3, using: &random)
      let far = Int64.random(in: 0...Int64.max, using: &random)
      positions.append(Position(createdAt: Bool.random() ? near : far, messageID: .random(in: -2...2)))
      positions.append(Position(createdAt: near, messageID: .random(in: .min ... .max)))
    }
    for _ in 0..<20_000 {
      guard let left = positions.randomElement(), let right = positions.randomElement() else { continue }
      #expect((left < right) == (left.description < right.description))
      #expect(Position(left.description) == left)
    }
  }

  @Test(
    "A text that no position has is refused",
    arguments: [
      "", "-", "0000000000000000-000000000000000", "0000000000000000_0000000000000000",
      "000000000000000A-0000000000000000", "8000000000000000-0000000000000000",
      "0000000000000000-0000000000000000 ", "+000000000000000-0000000000000000",
    ])
  func strict(text: String) {
    #expect(Position(text) == nil)
  }

  @Test("Next and previous step over milliseconds and stay at the ends")
  func steps() {
    #expect(Position(createdAt: 5, messageID: .max).next == Position(createdAt: 6, messageID: .min))
    #expect(Position(createdAt: 6, messageID: .min).previous == Position(createdAt: 5, messageID: .max))
    #expect(Position.end.next == .end)
    #expect(Position.start.previous == .start)
    #expect(Position(createdAt: 5, messageID: 7).next.previous == Position(createdAt: 5, messageID: 7))
  }
}
