import ChatModel

extension Coverage {
  /// Marks a gap as being filled. False: the gap does not exist, or is already being filled.
  package mutating func beginFill(_ id: Int64) -> Bool {
    guard let gap = gap(id)?.gap, gap.state != .filling else { return false }
    set(.filling, estimatedMissing: gap.estimatedMissing, of: id)
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
