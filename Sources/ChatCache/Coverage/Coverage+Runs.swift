import ChatModel

extension MessageListing {
  /// The rows between the items that could not be read, in the order in which they came; nil if they are not
  /// in the order of their positions: then neighbouring rows prove nothing.
  ///
  /// The page's limit may have cut the millisecond of its far row: items that could not be read count to the
  /// limit, too. So the rows of that millisecond are left out.
  var runs: [ArraySlice<MessageRecord>]? {
    guard zip(rows, rows.dropFirst()).allSatisfy({ $0.position < $1.position }) else { return nil }
    var runs: [ArraySlice<MessageRecord>] = []
    var start = 0
    for end in breaks + [rows.count] {
      runs.append(rows[start..<max(start, min(end, rows.count))])
      start = max(start, min(end, rows.count))
    }
    return runs.map { run in
      run.drop { window.older > 0 && isOfMillisecond(of: rows.first, $0) }.prefix {
        window.newer == 0 || !isOfMillisecond(of: rows.last, $0)
      }
    }
  }

  /// Whether the row is of the far row's millisecond, which is not the one that the anchor's message is of:
  /// that one is ordered by id.
  private func isOfMillisecond(of far: MessageRecord?, _ row: MessageRecord) -> Bool {
    if case .message(let position) = window.anchor, position.createdAt == row.createdAt { return false }
    return far?.createdAt == row.createdAt
  }

  /// Whether items that could not be read may be anywhere among the rows.
  var mayLackAnywhere: Bool { !isWhole && (breaks.isEmpty || runs == nil) }

  /// The stretches in which the listing shows every message, in order. `proof` is what its rows prove if all
  /// of them could be read.
  package func claims(_ proof: Listing) -> [ClosedRange<Position>] {
    if isWhole { return proof.claim.map { [$0] } ?? [] }
    guard !breaks.isEmpty, let runs else { return [] }
    return runs.indices.compactMap { index in
      let positions = runs[index].map(\.position)
      guard let first = positions.first, let last = positions.last else { return nil }
      return isBesideAnchor(index, of: runs.count) ? window.listing(positions).claim : first...last
    }
  }

  fileprivate func isBesideAnchor(_ run: Int, of count: Int) -> Bool {
    window.newer == 0 ? run == count - 1 : window.older == 0 && run == 0
  }
}

extension Coverage {
  /// Takes in a listing with items that could not be read: its claim ends at each of them (B24). The rows
  /// between two of them are a covered stretch; only the rows beside the anchor claim up to it.
  mutating func claimRuns(_ listing: MessageListing, now: Int64, generation: Int64, isOutdated: Bool) {
    guard let runs = listing.runs else { return }
    for (index, run) in runs.enumerated() {
      let positions = run.map(\.position)
      guard let first = positions.first, let last = positions.last else { continue }
      if listing.isBesideAnchor(index, of: runs.count) {
        claim(listing.window.listing(positions), now: now, generation: generation, isOutdated: isOutdated)
      } else {
        cover(first...last, generation: generation)
      }
    }
  }
}
