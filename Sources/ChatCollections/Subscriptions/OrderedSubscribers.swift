/// Subscribers in the order in which they subscribed. Mostly their connections lie in memory in that order,
/// too, so that thousands are woken faster.
struct OrderedSubscribers {
  /// The numbers grow. A removed subscriber leaves nil, until half of the entries are nil.
  private var entries: [(number: Int, subscriber: (any Wakeable)?)] = []
  /// How many there are.
  private(set) var count = 0

  /// Whether there are none.
  var isEmpty: Bool { count == 0 }

  /// Adds a subscriber. `number` is greater than that of every one before.
  mutating func append(_ subscriber: any Wakeable, number: Int) {
    entries.append((number, subscriber))
    count += 1
  }

  /// Removes a subscriber. False: there is none of that number.
  mutating func remove(_ number: Int) -> Bool {
    var (low, high) = (0, entries.count)
    while low < high {
      let middle = (low + high) / 2
      if entries[middle].number < number { low = middle + 1 } else { high = middle }
    }
    guard low < entries.count, entries[low].number == number, entries[low].subscriber != nil else {
      return false
    }
    entries[low].subscriber = nil
    count -= 1
    if count < entries.count / 2 { entries.removeAll { $0.subscriber == nil } }
    return true
  }

  /// Appends all subscribers, the oldest first.
  func add(to subscribers: inout [any Wakeable]) {
    for entry in entries {
      if let subscriber = entry.subscriber { subscribers.append(subscriber) }
    }
  }
}
