import ChatCache
import ChatModel

/// Lists what lies between the newest covered message and the upstream's newest, as a value: `step` returns
/// the page to list next, `received` takes its rows (B28, B29).
///
/// The newest page comes first; a short one, if webhooks told of a few new messages. If it reaches the
/// covered end, nothing else is missing. Otherwise, if a view shows the newest end, the missing messages are
/// counted by listing forward from the covered end in pages of 100:
///
/// ```
///  covered ──┤ page 1 ├ page 2 ├ page 3 …      … ┤ newest page ├── now
/// ```
///
/// Up to 300 missing: everything is stored, the stretches join. More: the first two forward pages extend the
/// old stretch, the newest page starts a new one, and the gap between them is huge. The other pages are not
/// stored, so that messages are missing in the gap even with 301.
package struct GapCheck: Sendable {
  /// The number of rows in a page.
  package static let pageRows = 100
  /// The number of rows in a short page: half of them for messages that webhooks told of, the others for
  /// those that came meanwhile.
  private static let shortRows = 20

  /// What to do next.
  package enum Step: Sendable, Equatable {
    case list(MessageWindow)
    case finish(Verdict)
  }

  /// The result of the check.
  package enum Verdict: Sendable, Equatable {
    /// The newest end is joined, or nothing was covered before.
    case joined
    /// A gap stays, and its messages were not counted.
    case apart
    /// At least `missing` messages are missing: too many to be fetched without a client's request.
    case huge(missing: Int)
  }

  /// The pages to store, in order, by their numbers.
  package private(set) var keep: [Int] = []
  private let covered: Position?
  private let counts: Bool
  private let told: Set<Int64>
  /// The rows of the newest page.
  private var newestRows: Int
  /// How many short pages were listed before the newest page.
  private var shortPages = 0
  fileprivate var pages: [Page] = []
  private var seen: Set<Position> = []
  private var anchor: MessageWindow.Anchor?
  /// The position up to which the forward listing has every message.
  private var reached: Position?
  private var isExhausted = false
  /// Whether a message that anchored a page was deleted upstream.
  private var isAnchorGone = false
  /// Whether the next page also asks for the row before its anchor, which joins it to the page before.
  private var joinsOlder = false

  fileprivate struct Page: Sendable {
    let rows: [Position]
    let claim: ClosedRange<Position>?
  }

  /// A check of a channel covered up to `covered`. `counts`: an open view shows the newest end, so missing
  /// messages are counted (B28). `told`: the new messages that webhooks told of; empty: there are none, or
  /// their ids are not known.
  package init(covered: Position?, counts: Bool, told: Set<Int64> = []) {
    self.covered = covered
    self.counts = counts
    self.told = told
    let isShort = covered != nil && (1...GapCheck.shortRows / 2).contains(told.count)
    newestRows = isShort ? GapCheck.shortRows : GapCheck.pageRows
    anchor = covered.map { .time($0.createdAt) }
  }

  /// The next page to list, or the result. `keep` then names the pages to store.
  package mutating func step() -> Step {
    guard let newest = pages.first else {
      return .list(MessageWindow(.newest, older: newestRows, newer: 0))
    }
    guard let covered, !newest.reaches(covered) else { return finish(.joined) }
    // The upstream cut a short page that does not reach the covered end: the forward listing finds the rest.
    guard counts || newest.rows.count < GapCheck.pageRows else { return finish(.apart) }
    if seen.count > Limits.missingMessagesFilled { return finishHuge() }
    if isExhausted || reached.map({ newest.reaches($0) }) ?? false { return finish(.joined) }
    return forward()
  }

  /// The rows of the window that `step` asked for. `lacksParents`: a new message replies to one that is not
  /// among them. Then a short page is followed by a whole one, which may show the thread's new state. So it
  /// is if it lacks a message that webhooks told of, which may be a reply, too.
  package mutating func received(
    _ window: MessageWindow, _ rows: [Position], lacksParents: Bool = false
  ) {
    let page = Page(rows: rows.sorted(), claim: window.listing(rows).claim)
    if pages.isEmpty, newestRows < GapCheck.pageRows, let covered,
      lacksParents || lacksTold(rows) || !page.reaches(covered)
    {
      newestRows = GapCheck.pageRows
      shortPages += 1
      return
    }
    pages.append(page)
    for row in rows where covered.map({ row > $0 }) ?? true { seen.insert(row) }
    guard pages.count > 1 else { return }
    guard let next = next(after: window, page, Listing.areTiesOrdered(rows)), next != window.anchor else {
      isExhausted = true
      return
    }
    anchor = next
  }

  private func lacksTold(_ rows: [Position]) -> Bool { !told.isSubset(of: rows.map(\.messageID)) }

  /// The next anchor of the forward listing: the first millisecond that the page does not prove, all of it,
  /// because messages of one millisecond may come in any order. Inside a millisecond with more messages than
  /// a page holds, the anchor is a message, if the page showed them in the order of their ids. Nil: nothing
  /// follows.
  private mutating func next(
    after window: MessageWindow, _ page: Page, _ areTiesOrdered: Bool
  ) -> MessageWindow.Anchor? {
    let before = reached ?? covered ?? .start
    guard let first = page.rows.first, let last = page.rows.last else { return nil }
    guard let claim = page.claim else {
      guard case .time = window.anchor, areTiesOrdered else { return nil }
      joinsOlder = isAnchorGone || before.createdAt != first.createdAt
      return .message(joinsOlder ? first : before)
    }
    joinsOlder = false
    if let safe = page.rows.last(where: claim.contains), safe > before { reached = safe }
    if let rest = page.rows.first(where: { $0 > claim.upperBound }) { return .time(rest.createdAt) }
    guard last > before else { return nil }
    guard case .message(let from) = window.anchor, from.createdAt == last.createdAt else {
      return .time(last.createdAt)
    }
    return page.rows.count < GapCheck.pageRows ? nil : .message(last)
  }

  /// The message at which the forward listing is anchored is gone upstream: anchors it at the message's time.
  /// False: it is anchored at a time already.
  package mutating func anchorIsGone() -> Bool {
    guard case .message(let position) = anchor else { return false }
    anchor = .time(position.createdAt)
    isAnchorGone = true
    return true
  }

  private func forward() -> Step {
    let rows = GapCheck.pageRows
    switch anchor {
    case .message(let position):
      return .list(
        MessageWindow(.message(position), older: joinsOlder ? 1 : 0, newer: rows, includesAnchor: joinsOlder))
    // Two rows more: the anchor's own, and one for a cut at the end.
    case .time(let time): return .list(MessageWindow(.time(time), older: 0, newer: rows + 2))
    case .newest, nil: return .finish(.apart)
    }
  }

  /// Notes the pages to store. `indices`: their places in `pages`.
  private mutating func keep(_ indices: [Int]) { keep = indices.map { $0 + shortPages } }

  private mutating func finish(_ verdict: Verdict) -> Step {
    keep(Array(pages.indices.dropFirst()) + [0])
    return .finish(verdict)
  }

  /// The number of messages seen, plus that in the gap at the density on both its sides. A channel that had
  /// no messages begins at the first one.
  private var estimate: Int {
    guard let covered, let reached, let newest = pages.first?.rows, let first = newest.first,
      let last = newest.last, first > reached
    else { return seen.count }
    func distance(_ from: Position, _ to: Position) -> Double {
      Double(to.createdAt) - Double(from.createdAt)
    }
    let begin = covered > .start ? covered : seen.min() ?? reached
    let listed = distance(begin, reached) + distance(first, last)
    let more = Double(seen.count) * distance(reached, first) / max(listed, 1)
    return seen.count + Int(min(more, 1_000_000))
  }

  private mutating func finishHuge() -> Step {
    var (kept, count) = ([Int](), 0)
    for index in pages.indices.dropFirst()
    where count + pages[index].rows.count + GapCheck.pageRows < seen.count {
      count += pages[index].rows.count
      kept.append(index)
    }
    keep(kept + [0])
    return .finish(.huge(missing: estimate))
  }
}

extension GapCheck.Page {
  /// Whether the page proves everything from right after `position` on. An empty page proves that there is
  /// nothing.
  fileprivate func reaches(_ position: Position) -> Bool {
    guard let claim else { return rows.isEmpty }
    return claim.lowerBound <= position.next
  }
}
