import ChatCache
import ChatModel
import Platform
import Synchronization

/// A subscriber that can be woken. It is an object and no closure, because one delivery wakes thousands.
package protocol Wakeable: AnyObject, Sendable {
  /// A change concerns the subscriber.
  func wake()
}

/// The subscriptions of requests that wait for changes. A commit wakes exactly the subscribers that it
/// concerns.
///
/// A chat view subscribes to its channel: to changes for all members, and to those for its own user. A
/// channel list and a user's feed subscribe to their user. To wake them, the cache is asked which subscribed
/// users a channel's change concerns. A thread of its own asks that, because commits are announced on the
/// writer's thread; the subscribers of the channel are woken before.
package final class ChangeSubscriptions: Sendable {
  /// The topics that a request subscribes to, and those who wait for them. All requests of one view share one
  /// object. An object serves one `ChangeSubscriptions` alone, whose lock guards what changes in it.
  package final class Topics: @unchecked Sendable {  // because its variables are only used under that lock
    /// The channels whose changes are subscribed to.
    let channels: [ChannelKey]
    /// The user whose changes in any channel are subscribed to; nil for none.
    let user: UserKey?
    /// The views whose upstream answers are subscribed to.
    let collections: [String]
    /// The user who makes the requests.
    let owner: UserKey
    /// Whether the topics belong to an open view, whose client polls again and again.
    let isOfView: Bool

    /// Whether the indexes of the subscriptions name these topics.
    fileprivate var isIndexed = false
    fileprivate var waiting = Waiting() {
      didSet { isAwaited.store(!waiting.isEmpty, ordering: .releasing) }
    }
    /// Whether somebody waits for them; read without the lock.
    fileprivate let isAwaited = Atomic(false)

    /// The topics of requests of `owner`.
    package init(
      of owner: UserKey, channels: [ChannelKey] = [], collections: [String] = [], user: UserKey? = nil,
      isOfView: Bool = false
    ) {
      self.owner = owner
      self.isOfView = isOfView
      self.channels = channels
      self.collections = collections
      self.user = user
    }
  }

  /// A subscription; pass it to `unsubscribe`.
  package struct Ticket: Sendable {
    let topics: Topics
    let number: Int
  }

  /// The subscribers of some topics, by their subscriptions' numbers.
  fileprivate struct Waiting {
    /// Subscribers that are woken by each change.
    var lasting: [Int: any Wakeable] = [:]
    /// Subscribers whose subscription ends with the first wake.
    var once = OrderedSubscribers()

    var isEmpty: Bool { lasting.isEmpty && once.isEmpty }
  }

  private struct State {
    var next = 0
    var count = 0
    var topics: Set<Topics> = []
    var byChannel: [ChannelKey: Set<Topics>] = [:]
    var byMember: [Member: Set<Topics>] = [:]
    var byUser: [UserKey: Set<Topics>] = [:]
    var byCollection: [ExactText: Set<Topics>] = [:]
    var perOwner: [UserKey: Int] = [:]
    var commits: [Commit] = []
    var waves: Waves
    var isStopping = false
  }

  private let cache: Cache
  private let state: Watched<State>
  /// Whether a wave is under way; read without the lock.
  private let hasWaves = Atomic(false)
  private let thread = ThreadSlot()
  private let most: Int
  private let mostPerUser: Int

  /// Subscriptions to the cache's commits from now on. `mostParked` and `mostPerUser` limit the subscribers
  /// (B54).
  package init(_ cache: Cache, mostParked: Int, mostPerUser: Int, waves: Waves.Settings = Waves.Settings()) {
    self.cache = cache
    state = Watched(State(waves: Waves(waves)))
    most = mostParked
    self.mostPerUser = mostPerUser
    cache.onCommit { [weak self] commit in self?.state.update { $0.commits.append(commit) } }
  }

  /// Starts the thread that wakes subscribers. It runs `eachMinute` about once a minute.
  package func start(eachMinute: @escaping @Sendable () -> Void) {
    thread.start("perch-wakes") { [self] in
      var sweptAt = Clock.system.monotonicNanoseconds()
      while let commits = next() {
        if Clock.system.monotonicNanoseconds() - sweptAt > 60_000_000_000 {
          sweptAt = Clock.system.monotonicNanoseconds()
          forgetEmpty()
          eachMinute()
        }
        for commit in commits { announce(commit) }
        wakeNextWaves()
      }
    }
  }

  /// Ends the thread; no subscriber is woken after that.
  package func stop() {
    state.update { $0.isStopping = true }
    thread.join()
  }

  private func next() -> [Commit]? {
    let end = Clock.system.monotonicNanoseconds() + 60_000_000_000
    let wave = state.read { $0.waves.next } ?? .max
    let found: [Commit]?? = state.wait(until: min(end, wave)) { state -> [Commit]?? in
      if !state.commits.isEmpty || state.waves.next ?? .max < wave {
        defer { state.commits = [] }
        return .some(state.commits)
      }
      return state.isStopping ? .some(nil) : nil
    }
    switch found {
    case .some(let commits): return commits
    case .none: return []
    }
  }

  /// Subscribes. Nil: too many requests are parked already (B54). Read the log only after subscribing, or a
  /// change may be missed (B51). `isOnce`: the first wake ends the subscription.
  package func subscribe(_ subscriber: any Wakeable, to topics: Topics, isOnce: Bool = false) -> Ticket? {
    state.read { state in
      guard state.count < most, state.perOwner[topics.owner, default: 0] < mostPerUser else { return nil }
      state.next += 1
      state.count += 1
      state.perOwner[topics.owner, default: 0] += 1
      if !topics.isIndexed { ChangeSubscriptions.index(topics, &state) }
      if isOnce {
        topics.waiting.once.append(subscriber, number: state.next)
      } else {
        topics.waiting.lasting[state.next] = subscriber
      }
      return Ticket(topics: topics, number: state.next)
    }
  }

  /// Ends a subscription, unless it has ended already.
  package func unsubscribe(_ ticket: Ticket) {
    let topics = ticket.topics
    // Most tickets are of subscriptions that a wake has ended, which it did before it woke the subscriber.
    guard topics.isAwaited.load(ordering: .acquiring) else { return }
    state.read { state in
      guard
        topics.waiting.once.remove(ticket.number)
          || topics.waiting.lasting.removeValue(forKey: ticket.number) != nil
      else { return }
      ChangeSubscriptions.left(1, of: topics, &state)
      if !topics.isOfView, topics.waiting.isEmpty { ChangeSubscriptions.forget(topics, &state) }
    }
  }

  /// Subtracts subscribers that left these topics.
  private static func left(_ count: Int, of topics: Topics, _ state: inout State) {
    state.count -= count
    let left = state.perOwner[topics.owner, default: count] - count
    state.perOwner[topics.owner] = left > 0 ? left : nil
  }

  /// Removes topics without subscribers from the indexes. A view's topics stay there until this is called,
  /// each minute, because its clients mostly subscribe again at once.
  package func forgetEmpty() {
    state.read { state in
      for topics in state.topics where topics.waiting.isEmpty { ChangeSubscriptions.forget(topics, &state) }
    }
  }

  /// Adds the topics to the indexes.
  private static func index(_ topics: Topics, _ state: inout State) {
    topics.isIndexed = true
    state.topics.insert(topics)
    for channel in topics.channels {
      state.byChannel[channel, default: []].insert(topics)
      state.byMember[Member(channel: channel, user: topics.owner), default: []].insert(topics)
    }
    for id in topics.collections { state.byCollection[ExactText(id), default: []].insert(topics) }
    if let user = topics.user { state.byUser[user, default: []].insert(topics) }
  }

  /// Removes the topics from the indexes.
  private static func forget(_ topics: Topics, _ state: inout State) {
    topics.isIndexed = false
    state.topics.remove(topics)
    for channel in topics.channels {
      remove(topics, &state.byChannel, channel)
      remove(topics, &state.byMember, Member(channel: channel, user: topics.owner))
    }
    for id in topics.collections { remove(topics, &state.byCollection, ExactText(id)) }
    if let user = topics.user { remove(topics, &state.byUser, user) }
  }

  /// Wakes the subscribers of these topics, some at a time, so that the first are woken before all are found.
  /// A subscription for one wake ends with it.
  private func wake(_ topics: some Collection<Topics>) {
    var rest = topics[...]
    while !rest.isEmpty {
      let some = rest.prefix(ChangeSubscriptions.wokenAtOnce)
      rest = rest.dropFirst(ChangeSubscriptions.wokenAtOnce)
      for subscriber in state.read({ ChangeSubscriptions.woken(by: some, &$0) }) { subscriber.wake() }
    }
  }

  private static let wokenAtOnce = 32

  /// The subscribers of these topics. Removes those that are woken once.
  private static func woken(by topics: some Collection<Topics>, _ state: inout State) -> [any Wakeable] {
    var woken: [any Wakeable] = []
    for one in topics where !one.waiting.isEmpty {
      woken += one.waiting.lasting.values
      guard !one.waiting.once.isEmpty else { continue }
      one.waiting.once.add(to: &woken)
      left(one.waiting.once.count, of: one, &state)
      one.waiting.once = OrderedSubscribers()
      if !one.isOfView, one.waiting.isEmpty { forget(one, &state) }
    }
    return woken
  }

  private static func remove<Key: Hashable>(
    _ topics: Topics, _ index: inout [Key: Set<Topics>], _ key: Key
  ) {
    index[key]?.remove(topics)
    if index[key]?.isEmpty ?? false { index[key] = nil }
  }

  /// Wakes the subscribers of a view that has ended.
  package func end(_ collection: String) {
    wake(state.read { $0.byCollection[ExactText(collection)] ?? [] })
  }

  /// The number of topics in the indexes.
  package var topics: Int { state.read { $0.topics.count } }

  /// The number of subscriptions.
  package var count: Int { state.read { $0.count } }

  /// Counts a poll of the channel as told, so that the present wave may end.
  package func noteTold(in channel: ChannelKey) {
    // Wakes the thread, because the wave ends earlier now.
    if state.read({ $0.waves.noteTold(in: channel) }) { state.update { _ in } }
  }

  /// Whether a poll with this cursor is answered with the channel's present wave, waits for the next one, or
  /// neither.
  package func turn(in channel: ChannelKey, after sequence: Int64) -> Waves.Turn {
    guard hasWaves.load(ordering: .relaxed) else { return .free }
    return state.read { $0.waves.turn(in: channel, after: sequence) }
  }

  private func wakeNextWaves() {
    let (now, head) = (Clock.system.monotonicNanoseconds(), cache.cursor.sequence)
    wake(
      state.read { state in
        var topics: Set<Topics> = []
        for channel in state.waves.takeEnded(at: now) {
          topics.formUnion(ChangeSubscriptions.followers(of: channel, at: now, head, head, &state))
        }
        hasWaves.store(!state.waves.isEmpty, ordering: .relaxed)
        return topics
      })
  }

  /// The topics of the channel's followers, if the change with that sequence wakes them now. `head`: the
  /// log's end.
  private static func followers(
    of channel: ChannelKey, at now: UInt64, _ sequence: Int64, _ head: Int64, _ state: inout State
  ) -> Set<Topics> {
    guard let topics = state.byChannel[channel] else { return [] }
    // Only polls of single views are told in waves.
    let isWoken = state.waves.begin(
      in: channel, followers: topics.count(where: \.isOfView), at: now, sequence: sequence, head: head)
    return isWoken ? topics : []
  }

  private func announce(_ commit: Commit) {
    let (now, head) = (Clock.system.monotonicNanoseconds(), cache.cursor.sequence)
    let (direct, count) = state.read { state -> (Set<Topics>, Int) in
      // The link to the upstream changed, or the log is a new one and every cursor has ended (B52).
      if commit.isForAll || commit.cleared.isEverything { return (state.topics, state.byUser.count) }
      var topics: Set<Topics> = []
      for channel in commit.channels {
        topics.formUnion(ChangeSubscriptions.followers(of: channel, at: now, commit.sequence, head, &state))
      }
      hasWaves.store(!state.waves.isEmpty, ordering: .relaxed)
      for member in commit.members { topics.formUnion(state.byMember[member] ?? []) }
      for collection in commit.collections { topics.formUnion(state.byCollection[collection] ?? []) }
      for user in commit.users { topics.formUnion(state.byUser[user] ?? []) }
      if !commit.connections.isEmpty {
        topics.formUnion(state.topics.filter { commit.connections.contains($0.owner) })
      }
      return (topics, state.byUser.count)
    }
    wake(direct)
    guard !commit.isForAll, !commit.channels.isEmpty, count > 0 else { return }
    wakeConcerned(by: commit.channels, waiting: count) { commit.users.contains($0) }
  }

  /// Wakes the subscribed users whom changes of these channels concern, some at a time, so that the first are
  /// woken before all are found. Walks through the members of a channel. If these are more than eight times
  /// as many as the subscribed users, each of the users is looked up instead. `isWoken`: whether the user was
  /// woken already.
  private func wakeConcerned(
    by channels: Set<ChannelKey>, waiting count: Int, isWoken: (UserKey) -> Bool
  ) {
    func wake(_ users: [UserKey]) {
      self.wake(state.read { state in users.flatMap { state.byUser[$0] ?? [] } })
    }
    do {
      try cache.read { reader in
        for channel in channels {
          if try reader.hasMoreMembers(channel, than: count * ChangeSubscriptions.walkedPerLookup) {
            wake(
              try state.read { Array($0.byUser.keys) }.filter {
                try !isWoken($0) && reader.isMember($0, of: channel)
              })
          } else {
            try reader.eachMembers(of: channel, ChangeSubscriptions.lookedUpAtOnce) { members in
              wake(members.filter { !isWoken($0) })
            }
          }
        }
      }
    } catch {
      // The cache cannot be read: all subscribers are woken, and each finds out by itself. To wake too many
      // is safe.
      wake(state.read { Array($0.byUser.keys) })
    }
  }

  private static let lookedUpAtOnce = 128

  /// How many members are walked through in the time of one lookup.
  private static let walkedPerLookup = 8
}

extension ChangeSubscriptions.Topics: Hashable {
  package static func == (one: ChangeSubscriptions.Topics, other: ChangeSubscriptions.Topics) -> Bool {
    one === other
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
