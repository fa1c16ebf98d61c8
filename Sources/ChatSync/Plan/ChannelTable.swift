import ChatCache
import ChatModel

/// The work of all channels, and the lines in which they wait: the next job among a hundred thousand channels
/// is found without a search.
struct ChannelTable: Sendable {
  /// Channels in which something is due, a view is open, or a job runs or has failed.
  private var works: [ChannelURL: ChannelWork] = [:]
  /// All other channels, of which less is kept (decision 0063).
  private var quiet: [ChannelURL: QuietChannel] = [:]
  /// The longest wait after failed jobs of a channel (ms).
  private let maximumBackoff: Int64
  /// Channels with a view.
  private(set) var open: Set<ChannelURL> = []
  /// Channels with a view and a connected user.
  private(set) var watched: Set<ChannelURL> = []
  /// The channels that came to `watched` or left it since `takeChangedWatches`.
  private var changedWatches: Set<ChannelURL> = []
  /// How many of the watched channels have an active user: these are polled.
  private(set) var polled = 0
  /// Channels into which lanes may send and might not before, since `takeOpened`.
  private var opened: Set<ChannelURL> = []
  /// Channels of which a job failed since the last success.
  private(set) var troubled: Set<ChannelURL> = []
  /// Channels with a connected user whose newest messages are still to be fetched.
  private(set) var behind = 0
  /// The channels with a job of each kind, by the moment at which it may begin.
  private var lines = ChannelWork.Kind.allCases.map { _ in PriorityLine<ChannelURL, Int64>() }
  /// The channels that may be prefetched now.
  private var prefetches = PriorityLine<ChannelURL, PrefetchRank>()
  /// The channels that may be prefetched after a moment.
  private var laterPrefetches = PriorityLine<ChannelURL, Int64>()

  /// No channels.
  init(maximumBackoff: Int64) { self.maximumBackoff = maximumBackoff }

  /// All channels.
  var urls: [ChannelURL] { Array(works.keys) + Array(quiet.keys) }

  /// How many of the channels are kept as quiet ones.
  var quietCount: Int { quiet.count }

  /// A channel's work, nil for none.
  subscript(url: ChannelURL) -> ChannelWork? {
    get { works[url] ?? quiet[url].map { ChannelWork($0, maximumBackoff: maximumBackoff) } }
    _modify {
      let before = Traits(unfold(url))
      defer { note(url, since: before) }
      yield &works[url]
    }
  }

  /// Changes a channel's work, which is new if the channel has none yet.
  mutating func change(_ url: ChannelURL, _ body: (inout ChannelWork) -> Void) {
    let before = Traits(unfold(url))
    defer { note(url, since: before) }
    body(&works[url, default: ChannelWork(wait: Backoff(maximum: maximumBackoff))])
  }

  /// Forgets all channels but these, without a look at each: there may be a million.
  mutating func removeAll(but kept: [ChannelURL]) {
    var table = ChannelTable(maximumBackoff: maximumBackoff)
    for url in kept { if let work = self[url] { table.change(url) { $0 = work } } }
    table.changedWatches.formUnion(changedWatches.union(watched))
    // Lanes that an open channel held may send.
    table.opened.formUnion(opened.union(open))
    self = table
  }

  /// Makes a quiet channel's work whole, so that it can be changed. Returns the channel's work.
  private mutating func unfold(_ url: ChannelURL) -> ChannelWork? {
    if let channel = quiet.removeValue(forKey: url) {
      works[url] = ChannelWork(channel, maximumBackoff: maximumBackoff)
    }
    return works[url]
  }

  /// The channels that are watched now and were not at the last call, or the reverse.
  mutating func takeChangedWatches() -> Set<ChannelURL> {
    defer { changedWatches = [] }
    return changedWatches
  }

  /// The channels into which lanes may send now and might not at the last call (`ChannelWork.sendGate`).
  mutating func takeOpened() -> Set<ChannelURL> {
    defer { opened = [] }
    return opened
  }

  /// The channel whose job of that kind may begin first, and that moment.
  func first(_ kind: ChannelWork.Kind) -> (url: ChannelURL, moment: Int64)? {
    lines[kind.rawValue].first.map { ($0.key, $0.rank) }
  }

  /// The channel to prefetch next, of those that may begin.
  mutating func nextPrefetch(now: Int64) -> ChannelURL? {
    while let (url, moment) = laterPrefetches.first, moment <= now {
      laterPrefetches[url] = nil
      prefetches[url] = self[url].map { PrefetchRank($0) }
    }
    return prefetches.first?.key
  }

  /// The first moment at which a prefetch may begin; `Int64.min`: now.
  var prefetchDueAt: Int64 { prefetches.isEmpty ? laterPrefetches.first?.rank ?? .max : .min }

  /// Updates the lines after a change of the channel's work, and keeps little of it if the channel is quiet.
  private mutating func note(_ url: ChannelURL, since before: Traits) {
    let work = works[url]
    if let work, let channel = QuietChannel(work) {
      works[url] = nil
      quiet[url] = channel
    }
    let after = Traits(work)
    for line in lines.indices where after.moments[line] != before.moments[line] {
      lines[line][url] = after.moments[line]
    }
    if after.prefetchAt != before.prefetchAt || after.rank != before.rank {
      let isReady = after.prefetchAt == .min
      prefetches[url] = isReady ? after.rank : nil
      laterPrefetches[url] = isReady ? nil : after.prefetchAt
    }
    behind += (after.isBehind ? 1 : 0) - (before.isBehind ? 1 : 0)
    polled += (after.isPolled ? 1 : 0) - (before.isPolled ? 1 : 0)
    if after.sendGate > before.sendGate { opened.insert(url) }
    if after.isWatched != before.isWatched { changedWatches.insert(url) }
    ChannelTable.put(url, in: &open, after.isOpen, before.isOpen)
    ChannelTable.put(url, in: &watched, after.isWatched, before.isWatched)
    ChannelTable.put(url, in: &troubled, after.isTroubled, before.isTroubled)
  }

  private static func put(_ url: ChannelURL, in set: inout Set<ChannelURL>, _ after: Bool, _ before: Bool) {
    if after == before { return }
    if after { set.insert(url) } else { set.remove(url) }
  }

  /// The values of a channel's work that decide in which queues (`PriorityLine`) the channel waits, and its
  /// turn there.
  private struct Traits {
    var moments = InlineArray<13, Int64?>(repeating: nil)
    /// When a prefetch may begin; nil: none may. `Int64.min`: at any time.
    var prefetchAt: Int64?
    var rank = PrefetchRank()
    var isBehind = false
    var isOpen = false
    var isWatched = false
    var isPolled = false
    var isTroubled = false
    var sendGate = Int64.max

    init(_ work: ChannelWork?) {
      guard let work else { return }
      for kind in ChannelWork.Kind.allCases { moments[kind.rawValue] = work.moment(of: kind) }
      isBehind = work.needsPrefetch
      if isBehind, !work.isBusy {
        prefetchAt = max(work.heldBack.moment(.prefetch, .min), work.retryAt ?? .min)
      }
      rank = PrefetchRank(work)
      isOpen = work.isOpen
      isWatched = isOpen && !work.isOfNobody
      isPolled = isWatched && !work.isResting
      sendGate = work.sendGate
      isTroubled = work.retryAt != nil || !work.heldBack.isEmpty
    }
  }
}

/// The order of prefetch (B33): channels that somebody has opened lately are first, and of those the one with
/// the newest last message.
struct PrefetchRank: Comparable, Sendable {
  var isUsed = false
  var lastMessageAt: Int64 = 0

  init() {}

  init(_ work: ChannelWork) { (isUsed, lastMessageAt) = (work.isUsed, work.lastMessageAt) }

  static func < (one: PrefetchRank, other: PrefetchRank) -> Bool {
    one.isUsed == other.isUsed ? one.lastMessageAt > other.lastMessageAt : one.isUsed
  }
}
