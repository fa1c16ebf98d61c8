import TestSupport
import Testing

@testable import ChatCollections

/// Subscribers are woken in the order in which they subscribed, and not after they left.
@Suite struct OrderedSubscribersTests {
  private final class Subscriber: Wakeable {
    let number: Int

    init(_ number: Int) { self.number = number }

    func wake() {}
  }

  /// The numbers of those who would be woken.
  private static func woken(_ subscribers: OrderedSubscribers) -> [Int] {
    var all: [any Wakeable] = [Subscriber(-1)]
    subscribers.add(to: &all)
    return all.compactMap { ($0 as? Subscriber)?.number }
  }

  @Test("a wake finds all who are there, the oldest first", arguments: 1...20)
  func order(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var subscribers = OrderedSubscribers()
    var there: Set<Int> = []
    var number = 0
    for _ in 0..<2_000 {
      if Int.random(in: 0..<5, using: &random) < 2 {
        number += Int.random(in: 1...3, using: &random)
        subscribers.append(Subscriber(number), number: number)
        there.insert(number)
      } else {
        let gone = Int.random(in: max(0, number - 60)...number + 1, using: &random)
        #expect(subscribers.remove(gone) == (there.remove(gone) != nil))
      }
      #expect(subscribers.count == there.count)
      #expect(subscribers.isEmpty == there.isEmpty)
      #expect(Self.woken(subscribers) == [-1] + there.sorted())
    }
  }
}
