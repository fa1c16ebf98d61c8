/// A first-in, first-out queue. Taking the first element costs the same however many wait.
struct FirstInFirstOut<Element> {
  /// Slots of taken elements are nil, and are freed when all elements are taken or half of the slots are nil.
  private var slots: [Element?] = []
  private var first = 0

  var count: Int { slots.count - first }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ element: Element) { slots.append(element) }

  /// Adds an element that is taken before all others.
  mutating func putFirst(_ element: Element) {
    if first > 0 {
      first -= 1
      slots[first] = element
    } else {
      slots.insert(element, at: 0)
    }
  }

  mutating func takeFirst() -> Element? {
    guard first < slots.count else { return nil }
    defer {
      slots[first] = nil
      first += 1
      if first == slots.count {
        (slots, first) = ([], 0)
      } else if first > 64, first * 2 > slots.count {
        slots.removeFirst(first)
        first = 0
      }
    }
    return slots[first]
  }

  mutating func takeAll() -> [Element] {
    defer { (slots, first) = ([], 0) }
    return slots[first...].map { $0! }
  }
}
