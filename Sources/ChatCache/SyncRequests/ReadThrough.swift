import ChatModel

/// Decides which stretches one request for a page still has to fetch. A value: the page read from the cache
/// goes in, the next stretch to fetch comes out, until nothing is missing or the request has fetched as much
/// as it may (B15).
///
/// Call `next` after each read of the cache. If it returns a stretch, fetch it. If that was stored, read
/// again; if not, answer with the page as it is. If it returns nil, answer.
package struct ReadThrough: Sendable {
  /// Whether the request may be answered without asking the upstream.
  package enum Mode: Sendable, Equatable {
    /// The upstream is asked only for what the cache lacks.
    case whereNeeded
    /// `only-if-cached`: the upstream is never asked.
    case never
    /// `no-cache`: the upstream is asked at least once, whatever is covered.
    case always
  }

  /// The page as it was read from the cache.
  package struct Found: Sendable {
    /// The anchor of the page.
    package let anchor: PageAnchor
    /// The stretches of the page, by the coverage.
    package let plan: PagePlan
    /// Whether the page was not full when it came to the older end of the plan's range.
    package let isOlderEdgeMet: Bool
    /// Whether the page was not full when it came to the newer end of the plan's range.
    package let isNewerEdgeMet: Bool
    /// How far the tail can be trusted.
    package let tail: Tail.State

    /// The result of one read.
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
  /// The number of stretches that were returned so far.
  package private(set) var pages = 0

  /// A request for a page of `rows`.
  package init(_ mode: Mode = .whereNeeded, rows: Int) {
    self.mode = mode
    self.rows = rows <= 100 ? 100 : Limits.messagePageRows
  }

  /// The next stretch to fetch. Nil: nothing is missing, or the request may fetch no more.
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
    // The newest end is fetched once only: the link decides whether it is live after that.
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

  /// The stretch to fetch if the page itself is not covered or not trusted.
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
