import ChatCache
import ChatModel
import Platform

/// Who waits for what: a commit wakes exactly those it concerns.
///
/// A chat view waits on its channel: on what happens there for all, and for its own user alone. A channel
/// list and the user's feed wait on their user; which users a channel's change concerns is asked of the
/// cache, of those who wait at all. The asking is done on a thread of its own, since commits are announced on
/// the writer's, and after those were woken about whom nothing is to be asked.
package final class Feed: Sendable {
  /// What a parked request waits for.
  package struct Topics: Sendable {
    /// Changes of these channels.
    package var channels: Set<ChannelKey> = []
    /// Changes that concern this user, in whatever channel.
    package var user: UserKey?
    /// Answers to these views.
    package var collections: Set<String> = []

    /// Nothing.
    package init() {}
  }

  /// A subscription, to be given back.
  package struct Ticket: Hashable, Sendable {
    let number: Int
  }

  private struct Waiting {
    let topics: Topics
    let owner: UserKey
    let wake: @Sendable () -> Void
  }

  private struct State {
    var next = 0
    var waiting: [Int: Waiting] = [:]
    var byChannel: [ChannelKey: Set<Int>] = [:]
    var byMember: [Member: Set<Int>] = [:]
    var byUser: [UserKey: Set<Int>] = [:]
    var byCollection: [String: Set<Int>] = [:]
    var perOwner: [UserKey: Int] = [:]
    var commits: [Commit] = []
    var isStopping = false
  }

  private let cache: Cache
  private let state = Watched(State())
  private let thread = Guarded<Thread?>(nil)
  private let most: Int
  private let mostPerUser: Int

  /// A feed over the cache; it hears of every commit from now on (B54: at most so many parked requests).
  package init(_ cache: Cache, mostParked: Int, mostPerUser: Int) {
    self.cache = cache
    most = mostParked
    self.mostPerUser = mostPerUser
    cache.onCommit { [weak self] commit in self?.state.update { $0.commits.append(commit) } }
  }

  /// Begins to wake. `eachMinute` is run about so often.
  package func start(eachMinute: @escaping @Sendable () -> Void) {
    let started = Thread("perch-feed") { [self] in
      var sweptAt = Clock.system.monotonicNanoseconds()
      while let commits = next() {
        if Clock.system.monotonicNanoseconds() - sweptAt > 60_000_000_000 {
          sweptAt = Clock.system.monotonicNanoseconds()
          eachMinute()
        }
        for commit in commits { announce(commit) }
      }
    }
    thread.withLock { $0 = started }
  }

  /// Ends the thread.
  package func stop() {
    state.update { $0.isStopping = true }
    let running = thread.withLock { thread in
      defer { thread = nil }
      return thread
    }
    running?.join()
  }

  private func next() -> [Commit]? {
    let end = Clock.system.monotonicNanoseconds() + 60_000_000_000
    let found: [Commit]?? = state.wait(until: end) { state -> [Commit]?? in
      if !state.commits.isEmpty {
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

  /// Subscribes; nil where too many are parked already (B54). Look for changes only after this (B51).
  package func subscribe(
    _ topics: Topics, of owner: UserKey, wake: @escaping @Sendable () -> Void
  ) -> Ticket? {
    state.read { state in
      guard state.waiting.count < most, state.perOwner[owner, default: 0] < mostPerUser else { return nil }
      state.next += 1
      let number = state.next
      state.waiting[number] = Waiting(topics: topics, owner: owner, wake: wake)
      state.perOwner[owner, default: 0] += 1
      for channel in topics.channels {
        state.byChannel[channel, default: []].insert(number)
        state.byMember[Member(channel: channel, user: owner), default: []].insert(number)
      }
      for collection in topics.collections { state.byCollection[collection, default: []].insert(number) }
      if let user = topics.user { state.byUser[user, default: []].insert(number) }
      return Ticket(number: number)
    }
  }

  /// Gives a subscription back.
  package func unsubscribe(_ ticket: Ticket) {
    state.read { state in
      guard let waiting = state.waiting.removeValue(forKey: ticket.number) else { return }
      let left = state.perOwner[waiting.owner, default: 1] - 1
      state.perOwner[waiting.owner] = left > 0 ? left : nil
      for channel in waiting.topics.channels {
        Feed.remove(ticket.number, &state.byChannel, channel)
        Feed.remove(ticket.number, &state.byMember, Member(channel: channel, user: waiting.owner))
      }
      for id in waiting.topics.collections { Feed.remove(ticket.number, &state.byCollection, id) }
      if let user = waiting.topics.user { Feed.remove(ticket.number, &state.byUser, user) }
    }
  }

  private static func remove<Key: Hashable>(_ number: Int, _ index: inout [Key: Set<Int>], _ key: Key) {
    index[key]?.remove(number)
    if index[key]?.isEmpty ?? false { index[key] = nil }
  }

  /// How many wait.
  package var count: Int { state.read { $0.waiting.count } }

  private func announce(_ commit: Commit) {
    let (direct, count) = state.read { state in
      var numbers: Set<Int> = []
      for channel in commit.channels { numbers.formUnion(state.byChannel[channel] ?? []) }
      for member in commit.members { numbers.formUnion(state.byMember[member] ?? []) }
      for collection in commit.collections { numbers.formUnion(state.byCollection[collection] ?? []) }
      for user in commit.users { numbers.formUnion(state.byUser[user] ?? []) }
      if commit.isForAll { for own in state.byUser.values { numbers.formUnion(own) } }
      // A new log: every cursor has ended (B52).
      if commit.cleared.isEverything { numbers.formUnion(state.waiting.keys) }
      return (numbers.compactMap { state.waiting[$0]?.wake }, state.byUser.count)
    }
    for wake in direct { wake() }
    guard !commit.isForAll, !commit.channels.isEmpty, count > 0 else { return }
    let concerned = concerned(commit.channels, waiting: count).subtracting(commit.users)
    let wakes = state.read { state in
      concerned.flatMap { (state.byUser[$0] ?? []).compactMap { state.waiting[$0]?.wake } }
    }
    for wake in wakes { wake() }
  }

  /// The users to whom something happened in these channels. It takes as long as the members of each, or
  /// those who wait, whichever are fewer.
  private func concerned(_ channels: Set<ChannelKey>, waiting count: Int) -> Set<UserKey> {
    do {
      return try cache.read { reader in
        var concerned: Set<UserKey> = []
        for channel in channels {
          if let members = try reader.members(of: channel, atMost: count) {
            concerned.formUnion(members)
            continue
          }
          for user in state.read({ Array($0.byUser.keys) }) where !concerned.contains(user) {
            if try reader.isMember(user, of: channel) { concerned.insert(user) }
          }
        }
        return concerned
      }
    } catch {
      // What cannot be asked now is found by whoever is woken: too many is safe, too few is not.
      return state.read { Set($0.byUser.keys) }
    }
  }
}
