/// Elements in the order in which they came. Taking the first costs the same however many wait.
struct FirstInFirstOut<Element> {
  /// Those that were taken are nil, until all are taken or half of the places are empty.
  private var places: [Element?] = []
  private var first = 0

  var count: Int { places.count - first }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ element: Element) { places.append(element) }

  /// Adds an element that is taken before all others.
  mutating func putFirst(_ element: Element) {
    if first > 0 {
      first -= 1
      places[first] = element
    } else {
      places.insert(element, at: 0)
    }
  }

  mutating func takeFirst() -> Element? {
    guard first < places.count else { return nil }
    defer {
      places[first] = nil
      first += 1
      if first == places.count {
        (places, first) = ([], 0)
      } else if first > 64, first * 2 > places.count {
        places.removeFirst(first)
        first = 0
      }
    }
    return places[first]
  }

  mutating func takeAll() -> [Element] {
    defer { (places, first) = ([], 0) }
    return places[first...].map { $0! }
  }
}
