import ChatModel

extension Coverage {
  /// Paints `range` with `content` and restores the order. The part cut off an old tail becomes a gap with
  /// the reason `lost`.
  mutating func paint(_ range: ClosedRange<Position>, _ content: Segment.Content, lost: Gap.Reason) {
    let before = self
    split(at: range.lowerBound)
    if range.upperBound < .end { split(at: range.upperBound.next) }
    let low = index(of: range.lowerBound)
    let high = index(of: range.upperBound)
    stretches.replaceSubrange(low...high, with: [Stretch(start: range.lowerBound, content: content)])
    restore(after: before, lost: lost)
  }

  /// A gap for `paint`, with a new id.
  mutating func makeGap(_ reason: Gap.Reason) -> Gap {
    defer { nextGapID += 1 }
    return Gap(id: nextGapID, reason: reason, state: .idle)
  }

  private mutating func split(at position: Position) {
    let index = index(of: position)
    guard stretches[index].start < position else { return }
    stretches.insert(Stretch(start: position, content: stretches[index].content), at: index + 1)
  }

  private mutating func restore(after before: Coverage, lost: Gap.Reason) {
    endInTail()
    var seen: Set<Int64> = []
    for index in stretches.indices {
      switch stretches[index].content {
      case .tail where index + 1 < stretches.count:
        stretches[index].content = .gap(makeGap(lost))
      case .gap(let gap) where !seen.insert(gap.id).inserted:
        // The newer part of a gap that was split.
        stretches[index].content = .gap(makeGap(gap.reason))
      default: break
      }
    }
    merge()
    restGaps(changedSince: before)
  }

  /// Appends an empty, unconfirmed tail at the very end if the tail was painted over.
  private mutating func endInTail() {
    if case .tail = stretches[stretches.count - 1].content { return }
    if stretches[stretches.count - 1].start == .end { stretches.removeLast() }
    stretches.append(Stretch(start: .end, content: .tail(.unconfirmed)))
  }

  mutating func merge() {
    var merged: [Stretch] = []
    merged.reserveCapacity(stretches.count)
    for stretch in stretches {
      guard let last = merged.last, Coverage.areOne(last.content, stretch.content) else {
        merged.append(stretch)
        continue
      }
      if case .gap(var gap) = last.content, gap.estimatedMissing != nil {
        // It grew by a stretch whose messages were not counted.
        gap.estimatedMissing = nil
        merged[merged.count - 1].content = .gap(gap)
      }
    }
    stretches = merged
  }

  /// Whether neighbours of these contents are one segment.
  static func areOne(_ older: Segment.Content, _ newer: Segment.Content) -> Bool {
    switch (older, newer) {
    case (.covered(let left), .covered(let right)): left == right
    case (.gap(let left), .gap(let right)):
      left.reason == right.reason && left.state == .idle && right.state == .idle
    case (.tail, .tail): true
    default: false
    }
  }

  /// Ends the fill of each gap that changed meanwhile: its ticket is void (B26).
  private mutating func restGaps(changedSince before: Coverage) {
    var rested = false
    for index in stretches.indices {
      guard case .gap(var gap) = stretches[index].content, gap.state == .filling,
        before.gap(gap.id)?.range != segment(index).range
      else { continue }
      gap.state = gap.resting
      stretches[index].content = .gap(gap)
      rested = true
    }
    if rested { merge() }
  }
}
