import ChatModel

extension MessageListing {
  /// The rows between the items that could not be read, in the order in which they came; nil where they came
  /// in another order than the line's, so that nothing stands beside anything.
  var runs: [ArraySlice<MessageRecord>]? {
    guard zip(rows, rows.dropFirst()).allSatisfy({ $0.position < $1.position }) else { return nil }
    var runs: [ArraySlice<MessageRecord>] = []
    var start = 0
    for end in breaks + [rows.count] {
      runs.append(rows[start..<max(start, min(end, rows.count))])
      start = max(start, min(end, rows.count))
    }
    return runs
  }
}

extension Coverage {
  /// Takes in a listing with items that could not be read: its claim ends at each of them (B24). What stands
  /// between two of them is covered by itself; only the rows beside the anchor claim up to it.
  mutating func claimRuns(_ listing: MessageListing, now: Int64, generation: Int64, isOutdated: Bool) {
    guard let runs = listing.runs else { return }
    for (index, run) in runs.enumerated() {
      let places = run.map(\.position)
      guard let first = places.first, let last = places.last else { continue }
      let isBesideAnchor =
        listing.window.newer == 0 ? index == runs.count - 1 : listing.window.older == 0 && index == 0
      if isBesideAnchor {
        claim(listing.window.listing(places), now: now, generation: generation, isOutdated: isOutdated)
      } else {
        cover(first...last, generation: generation)
      }
    }
  }
}
