import ChatModel

extension Coverage {
  /// Takes in what a listing proves (B24, B25). Nothing else makes a stretch covered.
  ///
  /// A listing that reaches the end confirms the tail at `now`, in `generation` of the link: it either joins
  /// the old tail or leaves a gap before it. Any other listing may reach into the tail. Then the tail begins
  /// after it, and its confirmation stays as it was.
  ///
  /// Only a listing from the newest end shows where "now" is. Another anchor may lie in the future: its claim
  /// ends at its last row, or at the newest position known to be past, and an empty answer from beyond that
  /// proves nothing.
  ///
  /// `isOutdated`: messages newer than the listing's were stored after it was requested. Then it proves
  /// nothing beyond its last row: its end was the channel's end at an earlier moment, and a gap may be there
  /// by now.
  package mutating func claim(
    _ listing: Listing, now: Int64, generation: Int64, isOutdated: Bool = false
  ) {
    guard var range = listing.claim else { return }
    let lost = reasonForLosing(in: generation)
    if isOutdated {
      guard let last = listing.last, last >= range.lowerBound else { return }
      return paint(range.lowerBound...min(last, range.upperBound), .covered(isUnverified: false), lost: lost)
    }
    guard range.upperBound == .end else {
      let top = [joint.flatMap { $0 > .start ? $0.previous : nil }, listing.last].compactMap { $0 }.max()
      guard let top, top >= range.lowerBound else { return }
      range = range.lowerBound...min(range.upperBound, top)
      paint(range, .covered(isUnverified: false), lost: lost)
      return
    }
    if listing.anchor != .newest {
      guard range.lowerBound <= joint ?? .start else { return }
    }
    let oldTail = tailStart
    let lower = range.lowerBound
    // The tail keeps the rows that stood in it: it never moves back below what was covered or live.
    var start = lower
    if let last = listing.last { start = max(start, last.next) }
    if let newest = newestCovered { start = max(start, newest.next) }
    if oldTail < .end { start = max(start, oldTail) }
    paint(lower ... .end, .tail(Tail(confirmedAt: now, generation: generation)), lost: lost)
    if lower < start { paint(lower...start.previous, .covered(isUnverified: false), lost: lost) }
  }

  /// Covers the range between two messages of a listing that shows all messages between them.
  package mutating func cover(_ range: ClosedRange<Position>, generation: Int64) {
    paint(range, .covered(isUnverified: false), lost: reasonForLosing(in: generation))
  }

  /// Takes in a message stored without a listing: the answer to a send, or one fetched alone. If the end was
  /// never listed, an unconfirmed tail begins at the message, so that it can be shown.
  package mutating func arrive(at position: Position) {
    guard beginsTail(at: position) else { return }
    paint(position ... .end, .tail(.unconfirmed), lost: .neverLoaded)
  }

  /// Whether `arrive` begins a tail at the position.
  func beginsTail(at position: Position) -> Bool {
    tailStart == .end && position < .end && newestCovered.map { $0 < position } ?? true
  }

  /// Turns `range` into a gap, in the transaction that evicts its messages (B57). The range ends at `.end`,
  /// or at a message that the upstream has, so not in the future.
  package mutating func carve(_ range: ClosedRange<Position>) {
    let gap = makeGap(.evicted)
    paint(range, .gap(gap), lost: .evicted)
  }

  /// Turns the whole line into one gap (B58).
  package mutating func clear() { carve(.start ... .end) }

  /// Changes in `range` may have been missed: covered messages there are served, but have to be listed again
  /// (B31).
  package mutating func markUnverified(_ range: ClosedRange<Position>) {
    for segment in segments where segment.content == .covered(isUnverified: false) {
      guard segment.range.overlaps(range) else { continue }
      paint(segment.range.clamped(to: range), .covered(isUnverified: true), lost: .disconnected)
    }
  }

  /// The covered stretches that are to be listed again, newest first.
  package var unverified: [ClosedRange<Position>] {
    segments.reversed().filter { $0.content == .covered(isUnverified: true) }.map(\.range)
  }

  /// The stretches that are visible now and were not in `old`: messages stored there get events (B26).
  package func becameVisible(since old: Coverage) -> [ClosedRange<Position>] {
    var found: [ClosedRange<Position>] = []
    for missing in old.gaps {
      for segment in segments where segment.gap == nil && segment.range.overlaps(missing.range) {
        let range = segment.range.clamped(to: missing.range)
        if let last = found.last, last.upperBound.next >= range.lowerBound {
          found[found.count - 1] = last.lowerBound...range.upperBound
        } else {
          found.append(range)
        }
      }
    }
    return found
  }

  /// The position after the newest one that the upstream's time has certainly reached; nil: none.
  private var joint: Position? {
    tailStart < .end ? tailStart : newestCovered?.next
  }

  private func reasonForLosing(in generation: Int64) -> Gap.Reason {
    if tail.confirmedAt == nil { return .neverLoaded }
    return tail.generation == generation ? .limited : .disconnected
  }
}
