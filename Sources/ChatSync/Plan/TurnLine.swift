/// Places in their order, the smallest first: a binary heap. What changed meanwhile is not looked for in it:
/// its owner adds the new place, and passes over the old one when it comes to the front.
struct TurnLine<Place: Comparable & Sendable>: Sendable {
  private(set) var places: [Place] = []

  var first: Place? { places.first }

  mutating func add(_ place: Place) {
    places.append(place)
    var index = places.count - 1
    while index > 0, case let parent = (index - 1) / 2, places[index] < places[parent] {
      places.swapAt(parent, index)
      index = parent
    }
  }

  mutating func removeFirst() {
    guard let last = places.popLast(), !places.isEmpty else { return }
    places[0] = last
    var index = 0
    while true {
      var smallest = index
      for child in [2 * index + 1, 2 * index + 2]
      where child < places.count && places[child] < places[smallest] {
        smallest = child
      }
      guard smallest != index else { return }
      places.swapAt(index, smallest)
      index = smallest
    }
  }
}
