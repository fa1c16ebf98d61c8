import ChatModel

// A thread's replies may lie far back, where the channel was never listed. They are listed as a thread. The
// coverage by such listings is stored separately, because it covers the replies to one message and proves
// nothing about other messages of the channel.

/// The part of a thread that the cache covers by listings of the thread itself. Listings of the channel are
/// not counted here.
package struct ThreadCoverage: Sendable, Equatable {
  /// Stretches in which every reply is stored, oldest first; no two touch.
  package internal(set) var stretches: [ClosedRange<Position>] = []
  /// When a listing last reached the thread's newest end.
  package internal(set) var tail = Tail.unconfirmed

  /// A thread that was never listed.
  package init() {}

  init(stretches: [ClosedRange<Position>], tail: Tail) {
    self.stretches = stretches
    self.tail = tail
  }

  /// Adds the stretch that a listing of the thread proves (B24).
  ///
  /// `known`: the newest message that was stored before the listing was requested. The upstream's clock had
  /// passed its time, so no later reply can have an earlier position.
  package mutating func claim(_ listing: Listing, known: Position?, now: Int64, generation: Int64) {
    guard let claim = listing.claim else { return }
    let past = [listing.last, known].compactMap { $0 }.max()
    guard let past, past >= claim.lowerBound else { return }
    add(claim.lowerBound...min(claim.upperBound, past))
    if listing.anchor == .newest { tail = Tail(confirmedAt: now, generation: generation) }
  }

  private mutating func add(_ range: ClosedRange<Position>) {
    var united = range
    var kept: [ClosedRange<Position>] = []
    for stretch in stretches {
      let touches =
        stretch.lowerBound <= (united.upperBound < .end ? united.upperBound.next : .end)
        && united.lowerBound <= (stretch.upperBound < .end ? stretch.upperBound.next : .end)
      if touches {
        united = min(united.lowerBound, stretch.lowerBound)...max(united.upperBound, stretch.upperBound)
      } else {
        kept.append(stretch)
      }
    }
    stretches = (kept + [united]).sorted { $0.lowerBound < $1.lowerBound }
  }

  /// The coverage of the thread's replies, by listings of the channel (`line`) and of the thread together.
  ///
  /// `listsReplies`: whether listings of the channel contain replies. If not, `line` proves nothing about
  /// replies.
  package func over(_ line: Coverage, listsReplies: Bool) -> Coverage {
    var coverage = listsReplies ? line : Coverage()
    let tailStart = coverage.tailStart
    for stretch in stretches where stretch.lowerBound < tailStart {
      let end = min(stretch.upperBound, tailStart.previous)
      coverage.paint(stretch.lowerBound...end, .covered(isUnverified: false), lost: .neverLoaded)
    }
    let isFresher = tail.confirmedAt.map { $0 > coverage.tail.confirmedAt ?? .min } ?? false
    if isFresher, let last = stretches.last {
      let start = min(last.upperBound.next, tailStart)
      coverage.paint(start ... .end, .tail(tail), lost: .neverLoaded)
    }
    return coverage
  }
}
