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

  /// The stretches of the line of which it says all that is there, in order. `proof` is what its rows prove
  /// if all of them could be read.
  package func claims(_ proof: Listing) -> [ClosedRange<Position>] {
    if isWhole { return proof.claim.map { [$0] } ?? [] }
    guard !breaks.isEmpty, let runs else { return [] }
    return runs.indices.compactMap { anchored($0, runs)?.claim ?? inner($0, runs) }
  }

  /// What the run beside the anchor proves. It ends at an item that could not be read, as a full page ends at
  /// its limit: other messages of that millisecond may be beyond. Nil for other runs.
  fileprivate func anchored(_ index: Int, _ runs: [ArraySlice<MessageRecord>]) -> Listing? {
    guard !runs[index].isEmpty,
      window.newer == 0 ? index == runs.count - 1 : window.older == 0 && index == 0
    else { return nil }
    var cut = window
    cut.older = min(cut.older, runs[index].count)
    cut.newer = min(cut.newer, runs[index].count)
    return cut.listing(runs[index].map(\.position))
  }

  /// The stretch that a run away from the anchor proves. What could not be read may be of the milliseconds at
  /// its ends, so these are not claimed. Nil for the run beside the anchor.
  fileprivate func inner(_ index: Int, _ runs: [ArraySlice<MessageRecord>]) -> ClosedRange<Position>? {
    guard anchored(index, runs) == nil, let first = runs[index].first, let last = runs[index].last else {
      return nil
    }
    let low = Position.last(at: first.createdAt).next
    let high = Position.first(at: last.createdAt).previous
    return low <= high ? low...high : nil
  }
}

extension Coverage {
  /// Takes in a listing with items that could not be read: its claim ends at each of them (B24). What stands
  /// between two of them is covered by itself; only the rows beside the anchor claim up to it.
  mutating func claimRuns(_ listing: MessageListing, now: Int64, generation: Int64, isOutdated: Bool) {
    guard let runs = listing.runs else { return }
    for index in runs.indices {
      if let proof = listing.anchored(index, runs) {
        claim(proof, now: now, generation: generation, isOutdated: isOutdated)
      } else if let stretch = listing.inner(index, runs) {
        cover(stretch, generation: generation)
      }
    }
  }
}
