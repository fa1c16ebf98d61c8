import ChatModel

/// The right to fill a gap as it was when the ticket was given out.
package struct FillTicket: Hashable, Sendable {
  /// The gap's id.
  package let id: Int64
  /// The gap's ends.
  package let range: ClosedRange<Position>
}

extension Coverage {
  /// Marks a gap as being filled. Nil: the gap does not exist, or is already being filled.
  package mutating func beginFill(_ id: Int64) -> FillTicket? {
    guard let segment = gap(id), let gap = segment.gap, gap.state != .filling else { return nil }
    set(.filling, estimatedMissing: gap.estimatedMissing, of: id)
    return FillTicket(id: id, range: segment.range)
  }

  /// Takes in a listing of a gap's stretch if the gap is still as the ticket says (B26).
  ///
  /// False: the gap changed meanwhile, and the caller drops the listing. Otherwise `ticket` becomes one for
  /// the rest of the gap, or nil if nothing is left.
  package mutating func fill(
    _ ticket: inout FillTicket?, _ listing: Listing, rows: Int, now: Int64, generation: Int64
  ) -> Bool {
    guard let held = ticket, let before = gap(held.id), before.range == held.range,
      before.gap?.state == .filling
    else { return false }
    claim(listing, now: now, generation: generation)
    guard let left = gap(held.id), let gap = left.gap else {
      ticket = nil
      return true
    }
    set(.filling, estimatedMissing: gap.estimatedMissing.map { max($0 - rows, 0) }, of: held.id)
    ticket = FillTicket(id: held.id, range: left.range)
    return true
  }

  /// A listing requested to fill the gap shrank it: the rest is still being filled. False: nothing is left,
  /// or the filling was stopped.
  @discardableResult
  package mutating func goOnFilling(_ id: Int64, since old: Coverage, rows: Int) -> Bool {
    guard old.gap(id)?.gap?.state == .filling, let gap = gap(id)?.gap else { return false }
    set(.filling, estimatedMissing: gap.estimatedMissing.map { max($0 - rows, 0) }, of: id)
    return true
  }

  /// Ends the fill of the gap; the gap is idle or huge again.
  package mutating func stopFill(_ id: Int64) {
    guard let gap = gap(id)?.gap, gap.state == .filling else { return }
    set(gap.resting, estimatedMissing: gap.estimatedMissing, of: id)
  }

  /// Ends the fills of all gaps.
  package mutating func stopFills() {
    for segment in gaps {
      if let gap = segment.gap { stopFill(gap.id) }
    }
  }

  /// Notes how many messages are missing in a gap. If they are too many to be fetched unasked, it is huge
  /// (B28).
  package mutating func estimate(_ id: Int64, missing: Int) {
    guard var gap = gap(id)?.gap else { return }
    gap.estimatedMissing = missing
    set(gap.state == .filling ? .filling : gap.resting, estimatedMissing: missing, of: id)
  }

  private mutating func set(_ state: Gap.State, estimatedMissing: Int?, of id: Int64) {
    for index in stretches.indices {
      guard case .gap(var gap) = stretches[index].content, gap.id == id else { continue }
      gap.state = state
      gap.estimatedMissing = estimatedMissing
      stretches[index].content = .gap(gap)
    }
    merge()
  }
}
