/// Turns in their order, the smallest first: a binary heap. A turn that changes is not removed: the heap's
/// owner adds the new turn, and skips the outdated one when it comes to the front.
struct TurnLine<Turn: Comparable & Sendable>: Sendable {
  private(set) var turns: [Turn] = []

  var first: Turn? { turns.first }

  mutating func add(_ turn: Turn) {
    turns.append(turn)
    var index = turns.count - 1
    while index > 0, case let parent = (index - 1) / 2, turns[index] < turns[parent] {
      turns.swapAt(parent, index)
      index = parent
    }
  }

  mutating func removeFirst() {
    guard let last = turns.popLast(), !turns.isEmpty else { return }
    turns[0] = last
    var index = 0
    while true {
      var smallest = index
      for child in [2 * index + 1, 2 * index + 2]
      where child < turns.count && turns[child] < turns[smallest] {
        smallest = child
      }
      guard smallest != index else { return }
      turns.swapAt(index, smallest)
      index = smallest
    }
  }
}
