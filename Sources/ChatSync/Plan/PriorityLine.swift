/// Keys in the order of their ranks, the smallest rank first: a binary heap that knows where each key is.
struct PriorityLine<Key: Hashable & Sendable, Rank: Comparable & Sendable>: Sendable {
  private var heap: [(key: Key, rank: Rank)] = []
  private var indexes: [Key: Int] = [:]

  var first: (key: Key, rank: Rank)? { heap.first }

  var isEmpty: Bool { heap.isEmpty }

  var count: Int { heap.count }

  /// The key's rank; nil: the key is not in the line.
  subscript(key: Key) -> Rank? {
    get { indexes[key].map { heap[$0].rank } }
    set {
      switch (indexes[key], newValue) {
      case (let index?, let rank?):
        heap[index].rank = rank
        settle(index)
      case (nil, let rank?):
        heap.append((key, rank))
        indexes[key] = heap.count - 1
        settle(heap.count - 1)
      case (let index?, nil): remove(at: index)
      case (nil, nil): break
      }
    }
  }

  private mutating func remove(at index: Int) {
    swap(index, heap.count - 1)
    indexes[heap.removeLast().key] = nil
    if index < heap.count { settle(index) }
  }

  /// Moves an entry to where its rank belongs.
  private mutating func settle(_ start: Int) {
    var index = start
    while index > 0, case let parent = (index - 1) / 2, heap[index].rank < heap[parent].rank {
      swap(index, parent)
      index = parent
    }
    while true {
      var smallest = index
      for child in [2 * index + 1, 2 * index + 2]
      where child < heap.count && heap[child].rank < heap[smallest].rank {
        smallest = child
      }
      guard smallest != index else { return }
      swap(index, smallest)
      index = smallest
    }
  }

  private mutating func swap(_ one: Int, _ other: Int) {
    guard one != other else { return }
    heap.swapAt(one, other)
    indexes[heap[one].key] = one
    indexes[heap[other].key] = other
  }
}
