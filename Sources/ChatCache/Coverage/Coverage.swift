import ChatModel

// A channel's messages stand on one line of positions. For each stretch of it the cache knows whether it has
// everything the upstream has there (covered), or not (a gap), and the line ends in the tail: the stretch
// from the newest covered position up to now.
//
// The stretches tile the line: no overlap, no hole. They are kept as a list of first positions, each stretch
// reaching to the next one's first position, the last to the end of the line. So the list cannot express a
// hole or an overlap, as long as three things hold, which every change restores before it returns:
//
// 1. the first stretch begins at `Position.start`, and first positions strictly rise;
// 2. the last stretch is the tail, and no other is;
// 3. neighbours of a kind are one: covered with covered of the same verification, idle gap with idle gap of
//    the same reason.
//
// An unknown channel is one gap and an empty tail at `Position.end`. A wholly known channel is one covered
// stretch and the tail, or, if it is empty, the tail alone. Only a covered stretch or a tail that begins at
// `Position.start` says that nothing older exists.
//
// Everything here is a value: no clock, no file. What differs by user (the history floor) is a parameter.

/// One channel's line: the stretches that the cache has completely, the gaps and the tail.
package struct Coverage: Hashable, Sendable {
  struct Stretch: Hashable, Sendable {
    var start: Position
    var content: Segment.Content
  }

  /// In order; see above.
  var stretches: [Stretch]
  /// The id of the next gap. It never falls, so that no id is given twice.
  package internal(set) var nextGapID: Int64

  /// The coverage of an unknown channel.
  package init() {
    stretches = [
      Stretch(start: .start, content: .gap(Gap(id: 1, reason: .neverLoaded, state: .idle))),
      Stretch(start: .end, content: .tail(.unconfirmed)),
    ]
    nextGapID = 2
  }

  init(stretches: [Stretch], nextGapID: Int64) {
    self.stretches = stretches
    self.nextGapID = nextGapID
  }

  /// All segments in order; they tile the line.
  package var segments: [Segment] { stretches.indices.map(segment) }

  /// Passes the first position and the content of each segment to `body`, in order: all of it but
  /// `nextGapID`.
  package func eachStart(_ body: (Position, Segment.Content) -> Void) {
    for stretch in stretches { body(stretch.start, stretch.content) }
  }

  /// The gaps, oldest first.
  package var gaps: [Segment] { segments.filter { $0.gap != nil } }

  /// The segment in which `position` lies.
  package func segment(at position: Position) -> Segment { segment(index(of: position)) }

  /// The segment of the gap with this id.
  package func gap(_ id: Int64) -> Segment? {
    for index in stretches.indices {
      if case .gap(let gap) = stretches[index].content, gap.id == id { return segment(index) }
    }
    return nil
  }

  /// Whether a confirmed message at `position` may be shown between its neighbours (B18).
  package func shows(_ position: Position) -> Bool { segment(at: position).gap == nil }

  /// Whether some of the range is covered.
  package func covers(partOf range: ClosedRange<Position>) -> Bool {
    segments.contains { $0.isCovered && $0.range.overlaps(range) }
  }

  /// The state of the newest end.
  package var tail: Tail {
    if case .tail(let tail) = stretches[stretches.count - 1].content { tail } else { .unconfirmed }
  }

  /// The first position of the tail.
  package var tailStart: Position { stretches[stretches.count - 1].start }

  /// The newest covered position, or nil.
  package var newestCovered: Position? {
    for index in stretches.indices.reversed() {
      if case .covered = stretches[index].content { return segment(index).range.upperBound }
    }
    return nil
  }

  /// The newest position that the upstream's time has certainly reached: the newest covered one or, if that
  /// was evicted, the one before the confirmed tail (B57). `.start`: the channel had no messages.
  package var newestKnown: Position? {
    if let newestCovered { return newestCovered }
    guard tail.confirmedAt != nil, tailStart < .end else { return nil }
    return tailStart > .start ? tailStart.previous : .start
  }

  /// Whether some covered position of `range` awaits being listed again (B31).
  package func isUnverified(in range: ClosedRange<Position>) -> Bool {
    (index(of: range.lowerBound)...index(of: range.upperBound)).contains {
      stretches[$0].content == .covered(isUnverified: true)
    }
  }

  func segment(_ index: Int) -> Segment {
    let stretch = stretches[index]
    let isLast = index + 1 == stretches.count
    let upper = isLast ? Position.end : stretches[index + 1].start.previous
    return Segment(range: stretch.start...upper, content: stretch.content)
  }

  func index(of position: Position) -> Int {
    var low = 0
    var high = stretches.count
    while high - low > 1 {
      let middle = (low + high) / 2
      if stretches[middle].start <= position { low = middle } else { high = middle }
    }
    return low
  }
}
