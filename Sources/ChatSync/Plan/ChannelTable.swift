import ChatCache
import ChatModel

/// The work of all channels, with indexes for the choice of a job: a choice among ten thousand channels looks
/// only at those few that have work.
struct ChannelTable: Sendable {
  private(set) var works: [ChannelURL: ChannelWork] = [:]
  /// Channels with something to do besides prefetch.
  private(set) var wanted: Set<ChannelURL> = []
  /// Channels with a view.
  private(set) var open: Set<ChannelURL> = []
  /// Channels with a connected user whose newest messages are still to be fetched.
  private(set) var behind = 0
  /// The turns of the channels that are behind, in the order of prefetch, and outdated turns.
  private var line = TurnLine<Turn>()

  /// All channels.
  var urls: [ChannelURL] { Array(works.keys) }

  /// A channel's work, nil for none.
  subscript(url: ChannelURL) -> ChannelWork? {
    get { works[url] }
    _modify {
      let before = Traits(works[url])
      defer { note(url, since: before) }
      yield &works[url]
    }
  }

  /// A channel's work; `fresh` if it has none yet.
  subscript(url: ChannelURL, default fresh: ChannelWork) -> ChannelWork {
    get { works[url] ?? fresh }
    _modify {
      let before = Traits(works[url])
      defer { note(url, since: before) }
      yield &works[url, default: fresh]
    }
  }

  /// The channel to prefetch next: of those that may begin, the one with the newest last message.
  mutating func nextBehind(where mayBegin: (ChannelWork) -> Bool) -> ChannelURL? {
    var passed: [Turn] = []
    defer { for turn in passed { line.add(turn) } }
    while let turn = line.first {
      if isBehind(turn), let work = works[turn.url] {
        if mayBegin(work) { return turn.url }
        passed.append(turn)
      }
      line.removeFirst()
    }
    return nil
  }

  /// The first moment at which a prefetch may begin. No channel may begin before `soonest`.
  func prefetchDueAt(soonest: Int64, _ dueAt: (ChannelWork) -> Int64?) -> Int64 {
    var found = Int64.max
    for turn in line.turns where isBehind(turn) {
      found = min(found, works[turn.url].flatMap(dueAt) ?? .max)
      if found <= soonest { break }
    }
    return found
  }

  private func isBehind(_ turn: Turn) -> Bool {
    Traits(works[turn.url]).behindSince == turn.lastMessageAt
  }

  /// Updates the indexes after a change of the channel's work.
  private mutating func note(_ url: ChannelURL, since before: Traits) {
    let after = Traits(works[url])
    if after.isWanted != before.isWanted {
      if after.isWanted { wanted.insert(url) } else { wanted.remove(url) }
    }
    if after.isOpen != before.isOpen {
      if after.isOpen { open.insert(url) } else { open.remove(url) }
    }
    guard after.behindSince != before.behindSince else { return }
    behind += (after.behindSince == nil ? 0 : 1) - (before.behindSince == nil ? 0 : 1)
    guard let lastMessageAt = after.behindSince else { return }
    if line.turns.count > 2 * works.count + 64 { sort() }
    line.add(Turn(lastMessageAt: lastMessageAt, url: url))
  }

  /// Removes the outdated turns.
  private mutating func sort() {
    line = TurnLine()
    for (url, work) in works where work.needsPrefetch {
      line.add(Turn(lastMessageAt: work.lastMessageAt, url: url))
    }
  }

  /// A channel that waits for prefetch. The one with the newest last message is the first.
  private struct Turn: Comparable, Sendable {
    let lastMessageAt: Int64
    let url: ChannelURL

    static func < (one: Turn, other: Turn) -> Bool { one.lastMessageAt > other.lastMessageAt }
  }

  /// What the indexes depend on in a channel's work.
  private struct Traits {
    var isWanted = false
    var isOpen = false
    /// The last message's time, if the newest messages are still to be fetched.
    var behindSince: Int64?

    init(_ work: ChannelWork?) {
      guard let work else { return }
      isOpen = work.isOpen
      behindSince = work.needsPrefetch ? work.lastMessageAt : nil
      isWanted =
        work.checkAt != nil || work.isRefreshDue || !work.messages.isEmpty || work.verifyAt != nil
        || work.settleAt != nil || !work.fills.isEmpty
    }
  }
}
