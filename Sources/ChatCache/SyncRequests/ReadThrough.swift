import ChatModel

/// What one request for a page still misses, stretch by stretch, as a value: what was read goes in, what to
/// ask the upstream goes out, until nothing is missing or the request's share is used up (B15).
///
/// Ask `next` after each time the cache was read. A stretch: fetch it, and if it was stored, read and ask
/// again; if it was not, answer what there is. Nil: answer.
package struct ReadThrough: Sendable {
  /// What the request says of asking upstream.
  package enum Mode: Sendable, Equatable {
    /// Only for what is missing.
    case whereNeeded
    /// `only-if-cached`: never.
    case never
    /// `no-cache`: once at least, whatever is covered.
    case always
  }

  /// What was read of the cache.
  package struct Found: Sendable {
    /// What was asked for.
    package let anchor: PageAnchor
    /// What the coverage says of it.
    package let plan: PagePlan
    /// Whether the page was not full when it came to the older end of the plan's range.
    package let isOlderEdgeMet: Bool
    /// Whether the page was not full when it came to the newer end of the plan's range.
    package let isNewerEdgeMet: Bool
    /// How far the tail can be trusted.
    package let tail: Tail.State

    /// What was found so far.
    package init(
      _ anchor: PageAnchor, _ plan: PagePlan, isOlderEdgeMet: Bool, isNewerEdgeMet: Bool, tail: Tail.State
    ) {
      self.anchor = anchor
      self.plan = plan
      self.isOlderEdgeMet = isOlderEdgeMet
      self.isNewerEdgeMet = isNewerEdgeMet
      self.tail = tail
    }
  }

  private let mode: Mode
  private let rows: Int
  private var isTailAsked = false
  /// Stretches asked for so far.
  package private(set) var pages = 0

  /// A request for a page of `rows`.
  package init(_ mode: Mode = .whereNeeded, rows: Int) {
    self.mode = mode
    self.rows = rows <= 100 ? 100 : Limits.messagePageRows
  }

  /// What to fetch next; nil: nothing, or no more.
  package mutating func next(_ found: Found) -> MessageSyncRequest.Stretch? {
    guard mode != .never, pages < Limits.upstreamPagesPerRequest else { return nil }
    let stretch = missing(found) ?? (mode == .always && pages == 0 ? start(found.anchor) : nil)
    guard let stretch else { return nil }
    pages += 1
    if stretch == .newest { isTailAsked = true }
    return stretch
  }

  private func missing(_ found: Found) -> MessageSyncRequest.Stretch? {
    let plan = found.plan
    // The newest end is asked once: whether it is live afterwards is the link's matter.
    if plan.newer == .tail, found.tail != .live, !isTailAsked, found.isNewerEdgeMet { return .newest }
    guard plan.range != nil else {
      if case .gap = plan.older { return start(found.anchor) }
      if case .gap = plan.newer { return start(found.anchor) }
      return nil
    }
    if found.isOlderEdgeMet, case .gap(let gap) = plan.older {
      return .older(than: gap.range.upperBound.next, rows: rows)
    }
    if found.isNewerEdgeMet, case .gap(let gap) = plan.newer {
      return .newer(than: gap.range.lowerBound.previous, rows: rows)
    }
    return nil
  }

  /// The stretch to ask for where the asked page itself is not covered or not trusted.
  private func start(_ anchor: PageAnchor) -> MessageSyncRequest.Stretch {
    switch anchor {
    case .before(.end, _): .newest
    case .before(let position, let isInclusive):
      .older(than: isInclusive ? position.next : position, rows: rows)
    case .after(let position, let isInclusive):
      .newer(than: isInclusive ? position.previous : position, rows: rows)
    case .around(let position, _): .around(position.createdAt, older: rows / 2, newer: rows / 2)
    }
  }
}
