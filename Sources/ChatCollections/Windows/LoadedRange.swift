import ChatModel

/// How much of a channel's messages a view has loaded: one stretch of the line, with what is known of both
/// its ends (B16, B18).
///
/// An end that is open (`hasPrevious`, `hasNext` false) reaches as far as the line does, so that what comes
/// there later is inside. An end that is not stays where loading put it.
package struct LoadedRange: Hashable, Sendable {
  /// From the oldest to the newest loaded position; nil while nothing was loaded.
  package private(set) var loaded: ClosedRange<Position>?
  /// Whether something older may exist beyond.
  package private(set) var hasPrevious: Bool
  /// Whether something newer may exist beyond.
  package private(set) var hasNext: Bool

  /// A range that was stored, or is to begin.
  package init(loaded: ClosedRange<Position>? = nil, hasPrevious: Bool = true, hasNext: Bool = true) {
    self.loaded = loaded
    self.hasPrevious = hasPrevious
    self.hasNext = hasNext
  }

  /// Whether anything was ever loaded: in a channel of which nothing is known a view begins at its very end.
  package var hasSeenAnything: Bool { loaded.map { $0.lowerBound < .end } ?? false }

  /// Everything that belongs to the view, its open ends included; nil: nothing does.
  package var reach: ClosedRange<Position>? {
    let lower = hasPrevious ? loaded?.lowerBound : .start
    let upper = hasNext ? loaded?.upperBound : .end
    switch (lower, upper) {
    case (let lower?, let upper?): return lower...max(lower, upper)
    // Only one end is known: nothing lies between it and an end that nobody has seen.
    default: return nil
    }
  }

  /// Whether a message at that position belongs to the view.
  package func contains(_ position: Position) -> Bool { reach?.contains(position) ?? false }

  /// Whether what is stored of `other` does for this one: at an open end nobody needs to know how far the
  /// line went when somebody last looked.
  package func isStored(as other: LoadedRange) -> Bool {
    hasPrevious == other.hasPrevious && hasNext == other.hasNext
      && (!hasPrevious || loaded?.lowerBound == other.loaded?.lowerBound)
      && (!hasNext || loaded?.upperBound == other.loaded?.upperBound)
      && (loaded == nil) == (other.loaded == nil)
  }

  /// Takes in a page that was read from `span`; the range never shrinks by it. `hasPrevious` and `hasNext`
  /// say what the page found at its own ends, nil where it did not look.
  package mutating func take(_ span: ClosedRange<Position>?, hasPrevious older: Bool?, hasNext newer: Bool?) {
    if let span {
      if older == false || loaded.map({ span.lowerBound < $0.lowerBound }) ?? true {
        hasPrevious = older ?? hasPrevious
      }
      if newer == false || loaded.map({ span.upperBound > $0.upperBound }) ?? true {
        hasNext = newer ?? hasNext
      }
      loaded =
        loaded.map {
          min($0.lowerBound, span.lowerBound)...max($0.upperBound, span.upperBound)
        } ?? span
    } else {
      if older == false { hasPrevious = false }
      if newer == false { hasNext = false }
    }
  }

  /// Takes in a position at an open end: what came there stays loaded when the end closes.
  package mutating func arrive(at position: Position) {
    guard contains(position) else { return }
    loaded = loaded.map { min($0.lowerBound, position)...max($0.upperBound, position) } ?? position...position
  }

  /// Lets go of everything older than `position` (B22).
  package mutating func letGo(olderThan position: Position) {
    guard let reach, reach.contains(position) else { return }
    loaded = position...max(position, loaded?.upperBound ?? position)
    hasPrevious = true
  }

  /// Lets go of everything newer than `position` (B22, B28).
  package mutating func letGo(newerThan position: Position) {
    guard let reach, reach.contains(position) else { return }
    loaded = min(position, loaded?.lowerBound ?? position)...position
    hasNext = true
  }
}
