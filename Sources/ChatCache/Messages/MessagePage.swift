import ChatModel
import JSON
import Platform

// A page of messages: stored rows of one stretch, and the state of both its ends.
//
// The coverage decides which range of rows may be read (`PagePlan`). Rows are read from the anchor outwards,
// and `MessageRows` puts them into the order asked for. A filtered page reads at most `Limits.rowsLookedAt`
// rows. The next page goes on after the last row that was read, shown or not.

/// The parameters of a page (B12).
package struct MessagePageQuery: Sendable, Equatable {
  /// The point from which rows are read.
  package var anchor: PageAnchor
  /// The most rows.
  package var limit: Int
  /// Whether the newest row comes first.
  package var isReversed: Bool
  /// The filter for messages, and the parts of them to include.
  package var filter: MessageQuery

  /// A page around an anchor.
  package init(
    _ anchor: PageAnchor = .newest, limit: Int = Limits.messagePageDefaultRows, isReversed: Bool = false,
    filter: MessageQuery = MessageQuery()
  ) {
    self.anchor = anchor
    self.limit = limit
    self.isReversed = isReversed
    self.filter = filter
  }

  /// Whether the rows are read in the order of the answer.
  var isWalkedInOrder: Bool {
    switch anchor {
    case .before: isReversed
    case .after: !isReversed
    case .around: false
    }
  }
}

/// What the coverage says about a page before any row is read.
package struct MessagePageGround: Sendable {
  /// The channel's coverage.
  package let coverage: Coverage
  /// The range of rows that may be read.
  package let plan: PagePlan
  /// How far the tail can be trusted.
  package let tail: Tail.State

  /// The ground of a page at `anchor`, for the user of that view.
  package init(
    _ anchor: PageAnchor, _ coverage: Coverage, _ view: ChannelView, link: LinkStatus, interval: Int64,
    now: Int64
  ) {
    self.coverage = coverage
    plan = coverage.plan(anchor, floor: view.floorAt)
    let judged = link.judge(coverage.tail, now: now, interval: interval)
    tail = view.heldAt != nil && judged == .live ? .stale : judged
  }
}

/// A page that was read.
package struct MessagePage: ~Copyable {
  /// The head that was asked for, and the rows as JSON objects with commas between them, in the order asked
  /// for.
  package let items: ByteBuffer
  /// The number of rows.
  package let count: Int
  /// From the oldest to the newest row that was read, shown or not; nil: none.
  package let span: ClosedRange<Position>?
  /// Whether all rows down to the range's older end were read.
  package let isOlderEdgeMet: Bool
  /// Whether all rows up to the range's newer end were read.
  package let isNewerEdgeMet: Bool
  /// What the coverage said before the rows were read.
  package let ground: MessagePageGround

  /// Whether an older page may exist: nothing proves that there is none (B14).
  package var hasPrevious: Bool { ground.plan.hasPrevious(isReadToEdge: isOlderEdgeMet) }
  /// Whether newer rows are cached, or known to be missing. Only `ground.tail` tells whether messages may
  /// have come since it was confirmed.
  package var hasNext: Bool { ground.plan.hasNext(isReadToEdge: isNewerEdgeMet) }
  /// Whether the page is the newest end, as far as the cache goes.
  package var isAtNewestEnd: Bool { ground.plan.newer == .tail && isNewerEdgeMet }

  /// The gap that the page ends at on its older side.
  package var olderGap: Segment? {
    if isOlderEdgeMet, case .gap(let gap) = ground.plan.older { gap } else { nil }
  }
  /// The gap that the page ends at on its newer side.
  package var newerGap: Segment? {
    if isNewerEdgeMet, case .gap(let gap) = ground.plan.newer { gap } else { nil }
  }
  /// The gaps the page ends at, older first.
  package var gaps: [Segment] { [olderGap, newerGap == olderGap ? nil : newerGap].compactMap { $0 } }

  /// Whether changes to the shown messages may have been missed (B31).
  package var isUnverified: Bool { span.map { ground.coverage.isUnverified(in: $0) } ?? false }

  /// Whether nothing is missing that the page could show.
  package var isComplete: Bool {
    gaps.isEmpty && !isUnverified && !(isAtNewestEnd && ground.tail != .live)
  }

  /// Gives the items' buffer away, to a caller that writes on after them.
  package consuming func intoItems() -> ByteBuffer { items }

  /// The values that decide about a read-through (B15).
  package func found(_ anchor: PageAnchor) -> ReadThrough.Found {
    ReadThrough.Found(
      anchor, ground.plan, isOlderEdgeMet: isOlderEdgeMet, isNewerEdgeMet: isNewerEdgeMet, tail: ground.tail)
  }
}

extension CacheReader {
  /// The ground of a page: enough to compare ETags before any row is read.
  package func ground(
    _ anchor: PageAnchor, in view: ChannelView, link: LinkStatus, interval: Int64, now: Int64
  ) throws -> MessagePageGround {
    MessagePageGround(
      anchor, try coverage(of: view.channel), view, link: link, interval: interval, now: now)
  }

  /// Reads the page. Its items begin with `head`. `pending`: the user's pending changes, if the caller has
  /// read them.
  package func page(
    _ query: MessagePageQuery, in view: ChannelView, on ground: MessagePageGround, head: StaticString = "",
    pending known: PendingChanges? = nil
  ) throws -> MessagePage {
    var pending = try known ?? pendingChanges(in: view)
    if pending?.isPartial == true {
      var shown = MessageRows(query.filter, floor: view.floorAt, pending: pending)
      _ = try walk(query, view, ground, &shown)
      if let span = shown.span { pending?.fragments = try fragments(in: view, of: span) }
    }
    var rows = MessageRows(
      query.filter, floor: view.floorAt, pending: pending, isDirect: query.isWalkedInOrder, head: head)
    let (isOlderEdgeMet, isNewerEdgeMet) = try walk(query, view, ground, &rows)
    let (count, span) = (rows.count, rows.span)
    return MessagePage(
      items: rows.joined(isReversed: query.isReversed), count: count, span: span,
      isOlderEdgeMet: isOlderEdgeMet, isNewerEdgeMet: isNewerEdgeMet, ground: ground)
  }

  /// Walks the stored rows that the page may show. Answers whether it reached the older and the newer end of
  /// the covered stretch.
  private func walk(
    _ query: MessagePageQuery, _ view: ChannelView, _ ground: MessagePageGround, _ rows: inout MessageRows
  ) throws -> (isOlderEdgeMet: Bool, isNewerEdgeMet: Bool) {
    guard let range = ground.plan.range else { return (true, true) }
    switch query.anchor {
    case .before:
      return (try walk(.back, range, query.limit, view, &rows), true)
    case .after:
      return (true, try walk(.forth, range, query.limit, view, &rows))
    case .around(let position, let isInclusive):
      var isMet = (isOlderEdgeMet: true, isNewerEdgeMet: true)
      let older = query.limit / 2
      let looks = Limits.rowsLookedAt / 2
      if position > range.lowerBound {
        isMet.isOlderEdgeMet = try walk(
          .back, range.lowerBound...position.previous, older, looks: looks, view, &rows)
      }
      let from = max(isInclusive ? position : position.afterAnchor, range.lowerBound)
      if from <= range.upperBound {
        isMet.isNewerEdgeMet = try walk(
          .forth, from...range.upperBound, query.limit - older, looks: looks, view, &rows)
      }
      return isMet
    }
  }

  private enum Way { case back, forth }

  /// Walks the stored rows of a range from one end. True: it reached the other end.
  private func walk(
    _ way: Way, _ range: ClosedRange<Position>, _ limit: Int, looks: Int = Limits.rowsLookedAt,
    _ view: ChannelView, _ rows: inout MessageRows
  ) throws -> Bool {
    guard limit > 0 else { return false }
    rows.begin(isBackwards: way == .back)
    if rows.filter.isPlain, rows.filter.parts.isEmpty {
      return try walkPlain(way, range, limit, looks, view.channel, &rows)
    }
    let most = rows.count + limit
    var looked = 0
    var found =
      if let parent = rows.filter.parent {
        try self.replies(way == .back, range, view.channel, parent)
      } else {
        try self.rows(way == .back, range, view.channel)
      }
    while let row = try found.next() {
      if rows.count == most { return false }
      looked += 1
      rows.take(row)
      if looked == looks { return false }
    }
    return true
  }

  /// After this many skipped rows a statement that begins at the exact position replaces the first one.
  private static let mostPassed = 8

  private func walkPlain(
    _ way: Way, _ range: ClosedRange<Position>, _ limit: Int, _ looks: Int, _ channel: ChannelKey,
    _ rows: inout MessageRows, isExact: Bool = false
  ) throws -> Bool {
    let isBackwards = way == .back
    let first = isBackwards ? range.upperBound : range.lowerBound
    let most = rows.count + limit
    var (looked, passed) = (0, 0)
    var found =
      try isExact
      ? plainRows(isBackwards, from: first, channel) : plainRows(isBackwards, fromTimeOf: first, channel)
    while let row = try found.next() {
      let position = row.messagePosition
      if isBackwards ? position > first : position < first {
        passed += 1
        if passed < CacheReader.mostPassed { continue }
        return try walkPlain(way, range, limit, looks, channel, &rows, isExact: true)
      }
      if isBackwards ? position < range.lowerBound : position > range.upperBound { return true }
      if rows.count == most { return false }
      looked += 1
      rows.take(plain: row, at: position)
      if looked == looks { return false }
    }
    return true
  }
}

extension Position {
  /// The first position after this anchor: after its whole millisecond if it is a time, else after its
  /// message.
  fileprivate var afterAnchor: Position {
    messageID == .min ? Position.last(at: createdAt).next : next
  }
}

extension MessagePageGround {
  /// Whether messages may be missing from the page, judged before its rows are read. Then they are read even
  /// if the client has the page, instead of a 304 at once (B15).
  package var mayBeMissing: Bool {
    if case .gap = plan.older { return true }
    if case .gap = plan.newer { return true }
    return plan.newer == .tail && tail != .live
  }
}
