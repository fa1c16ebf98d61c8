import ChatModel
import JSON
import Platform

// A page of messages: the stored rows of one stretch to answer, and the state of both its ends.
//
// The coverage says from where to where rows may be read (`PagePlan`); the rows are walked from the anchor
// outwards, and written in the order of the line. A filtered page looks at `Limits.rowsLookedAt` rows at
// most: what was looked at, not what was shown, is where the next page goes on.

/// What a request asks for (B12).
package struct MessagePageQuery: Sendable, Equatable {
  /// From where.
  package var anchor: PageAnchor
  /// How many rows at most.
  package var limit: Int
  /// Whether the newest comes first.
  package var isReversed: Bool
  /// Which messages, and which of their parts.
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

  /// Whether the rows are walked in the order they are answered in.
  var isWalkedInOrder: Bool {
    switch anchor {
    case .before: isReversed
    case .after: !isReversed
    case .around: false
    }
  }
}

/// A page's ground: what the coverage says before any row is read.
package struct MessagePageGround: Sendable {
  /// What of the channel is in the cache.
  package let coverage: Coverage
  /// From where to where rows may be read.
  package let plan: PagePlan
  /// How far the tail can be trusted.
  package let tail: Tail.State

  /// What a page at `anchor` stands on, for a user whose history begins at `floor`.
  package init(
    _ anchor: PageAnchor, _ coverage: Coverage, floor: Int64, link: LinkStatus, interval: Int64, now: Int64
  ) {
    self.coverage = coverage
    plan = coverage.plan(anchor, floor: floor)
    tail = link.judge(coverage.tail, now: now, interval: interval)
  }
}

/// A page that was read.
package struct MessagePage: ~Copyable {
  /// The head that was asked for, and the rows as JSON objects with commas between them, in the order asked
  /// for.
  package let items: ByteBuffer
  /// How many rows there are.
  package let count: Int
  /// From the oldest to the newest row that was looked at, shown or not; nil: none.
  package let span: ClosedRange<Position>?
  /// Whether all rows down to the range's older end were looked at.
  package let isOlderEdgeMet: Bool
  /// Whether all rows up to the range's newer end were looked at.
  package let isNewerEdgeMet: Bool
  /// What it stands on.
  package let ground: MessagePageGround

  /// Whether an older page exists, as far as nothing proves the contrary (B14).
  package var hasPrevious: Bool { ground.plan.hasPrevious(isReadToEdge: isOlderEdgeMet) }
  /// Whether newer rows are cached, or known to be missing. What may have come since the tail was confirmed
  /// is told by the tail alone.
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

  /// What a read-through decides by (B15).
  package func found(_ anchor: PageAnchor) -> ReadThrough.Found {
    ReadThrough.Found(
      anchor, ground.plan, isOlderEdgeMet: isOlderEdgeMet, isNewerEdgeMet: isNewerEdgeMet, tail: ground.tail)
  }
}

extension CacheReader {
  /// What a page will stand on: enough to compare tags before any row is read.
  package func ground(
    _ anchor: PageAnchor, in view: ChannelView, link: LinkStatus, interval: Int64, now: Int64
  ) throws -> MessagePageGround {
    MessagePageGround(
      anchor, try coverage(of: view.channel), floor: view.floorAt, link: link, interval: interval, now: now)
  }

  /// Reads the page. Its items begin with `head`. `pending`: what the user has unsent, where it is known.
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

  /// Walks the stored rows of a range from one end. True: it came to the other end.
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

  /// Rows of the first millisecond that are passed over before they are asked for exactly.
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
  /// The first position after everything that this one, taken as an anchor, means: after its whole
  /// millisecond where a time was asked for, else after the one message.
  fileprivate var afterAnchor: Position {
    messageID == .min ? Position.last(at: createdAt).next : next
  }
}

extension MessagePageGround {
  /// Whether messages may be missing from the page, before its rows are read: then a client that has the page
  /// must not get a 304 without that read (B15).
  package var mayBeMissing: Bool {
    if case .gap = plan.older { return true }
    if case .gap = plan.newer { return true }
    return plan.newer == .tail && tail != .live
  }
}
