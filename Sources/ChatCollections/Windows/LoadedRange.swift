import ChatModel

/// How much of a channel's messages a view has loaded: one stretch of the line, and for both ends whether
/// more messages may exist there (B16, B18).
///
/// An end without more messages (`hasPrevious`, `hasNext` false) is open: it reaches to the end of the line,
/// so that later messages there are inside. Any other end stays where loading put it.
package struct LoadedRange: Hashable, Sendable {
  /// From the oldest to the newest loaded position; nil while nothing was loaded.
  package private(set) var loaded: ClosedRange<Position>?
  /// Whether something older may exist beyond.
  package private(set) var hasPrevious: Bool
  /// Whether something newer may exist beyond.
  package private(set) var hasNext: Bool

  /// A stored range, or a new one.
  package init(loaded: ClosedRange<Position>? = nil, hasPrevious: Bool = true, hasNext: Bool = true) {
    self.loaded = loaded
    self.hasPrevious = hasPrevious
    self.hasNext = hasNext
  }

  /// Whether anything was ever loaded. A view begins at `Position.end` if nothing is known of its channel.
  package var hasSeenAnything: Bool { seen != nil }

  /// Whether anything was ever loaded, or the channel is known to have nothing to load.
  package var isBegun: Bool { hasSeenAnything || !hasPrevious }

  /// The loaded stretch; nil if nothing was ever loaded. No message is at `Position.end`.
  package var seen: ClosedRange<Position>? {
    guard let loaded, loaded.lowerBound < .end else { return nil }
    return loaded.upperBound < .end ? loaded : loaded.lowerBound...loaded.lowerBound
  }

  /// Everything that belongs to the view, its open ends included; nil: nothing does.
  package var reach: ClosedRange<Position>? {
    let lower = hasPrevious ? loaded?.lowerBound : .start
    let upper = hasNext ? loaded?.upperBound : .end
    switch (lower, upper) {
    case (let lower?, let upper?): return lower...max(lower, upper)
    // Nothing was loaded at the other end, so the range has no known extent.
    default: return nil
    }
  }

  /// Whether a message at that position belongs to the view.
  package func contains(_ position: Position) -> Bool { reach?.contains(position) ?? false }

  /// Whether the stored form of `other` serves for this range, too: at an open end the last loaded position
  /// does not matter.
  package func isStored(as other: LoadedRange) -> Bool {
    hasPrevious == other.hasPrevious && hasNext == other.hasNext
      && (!hasPrevious || loaded?.lowerBound == other.loaded?.lowerBound)
      && (!hasNext || loaded?.upperBound == other.loaded?.upperBound)
      && (loaded == nil) == (other.loaded == nil)
  }

  /// Extends the range by a page with the rows of `span`; it never shrinks. `hasPrevious` and `hasNext`:
  /// whether more messages may exist beyond the page; nil: the page does not tell.
  package mutating func take(_ span: ClosedRange<Position>?, hasPrevious older: Bool?, hasNext newer: Bool?) {
    if let span {
      if older == false || loaded.map({ span.lowerBound < $0.lowerBound }) ?? true {
        hasPrevious = older ?? hasPrevious
      }
      if newer == false || loaded.map({ span.upperBound > $0.upperBound }) ?? true {
        hasNext = newer ?? hasNext
      }
      extend(by: span)
    } else {
      if older == false { hasPrevious = false }
      if newer == false { hasNext = false }
    }
  }

  /// Extends the range to a message that came at an open end, so that it stays loaded when the end closes.
  package mutating func arrive(at position: Position) {
    if contains(position) { extend(by: position...position) }
  }

  private mutating func extend(by span: ClosedRange<Position>) {
    loaded = seen.map { min($0.lowerBound, span.lowerBound)...max($0.upperBound, span.upperBound) } ?? span
  }

  /// Whether messages came at the open newest end.
  package func hasArrivals(since before: LoadedRange) -> Bool {
    guard !hasNext, let newest = loaded?.upperBound else { return false }
    return before.loaded.map { $0.upperBound < newest } ?? false
  }

  /// Moves each end that `after` has elsewhere than `before`. An end that was moved meanwhile, by a page or a
  /// cut, stays where it is.
  package mutating func move(from before: LoadedRange, to after: LoadedRange) {
    guard self != before, let now = loaded else { return self = after }
    var (lower, upper) = (now.lowerBound, now.upperBound)
    if before.seen != nil, let old = before.loaded, let new = after.loaded {
      if lower == old.lowerBound, hasPrevious == before.hasPrevious {
        (lower, hasPrevious) = (new.lowerBound, after.hasPrevious)
      }
      if upper == old.upperBound, hasNext == before.hasNext {
        (upper, hasNext) = (new.upperBound, after.hasNext)
      }
    } else if let new = after.loaded {
      // Both loaded the first messages.
      take(new, hasPrevious: after.hasPrevious, hasNext: after.hasNext)
      if after.hasNext, !before.hasNext { letGo(newerThan: new.upperBound) }
      return
    }
    loaded = lower...max(lower, upper)
  }

  /// Cuts off everything older than `position` (B22).
  package mutating func letGo(olderThan position: Position) {
    guard let reach, reach.contains(position) else { return }
    loaded = position...max(position, seen?.upperBound ?? position)
    hasPrevious = true
  }

  /// Cuts off everything newer than `position` (B22, B28).
  package mutating func letGo(newerThan position: Position) {
    guard let reach, reach.contains(position) else { return }
    loaded = min(position, loaded?.lowerBound ?? position)...position
    hasNext = true
  }
}
