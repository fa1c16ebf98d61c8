import ChatModel
import Platform
import SQLite
import Synchronization

/// One user in one channel.
package struct Member: Hashable, Sendable {
  /// The channel.
  package let channel: ChannelKey
  /// The user.
  package let user: UserKey

  /// That user in that channel.
  package init(channel: ChannelKey, user: UserKey) {
    self.channel = channel
    self.user = user
  }
}

/// What one commit changed, for the observers that wake subscribers and threads.
package struct Commit: Sendable {
  /// The last event of the commit; readers opened from now on see everything up to it.
  package let sequence: Int64
  /// The channels in which something changed for all who may see it.
  package let channels: Set<ChannelKey>
  /// The users for whom alone something changed, in a channel or outside channels.
  package let users: Set<UserKey>
  /// The channels with the one user for whom alone something changed in them.
  package let members: Set<Member>
  /// The collections that an event of the commit names.
  package let collections: Set<ExactText>
  /// Whether something changed for everybody.
  package let isForAll: Bool
  /// The users whose own connection changed.
  package let connections: Set<UserKey>
  /// The data that was cleared on request, and is to be fetched again.
  package let cleared: Cleared
  /// Lanes that changed outside their own jobs.
  package let lanes: Set<OutboxLaneName>
  /// Whether a user left a channel or was removed, so that a channel may be without users.
  let isLeaving: Bool
  /// Whether rows were cleared that are to be deleted later.
  let hasClearedRows: Bool
  /// Channels for which the commit stored webhook notes.
  package let notedChannels: Set<ChannelURL>
  /// Files that no row names any more.
  let freedFiles: [SpoolName]
  /// Whether the commit deleted rows whose files are not in `freedFiles`.
  let mayFreeFiles: Bool
}

/// The channels that one commit emptied because a client or an operator cleared the cache (B58).
package struct Cleared: Sendable, Equatable {
  /// The channels whose messages were cleared.
  package var channels: Set<ChannelURL> = []
  /// Whether everything was cleared: channels, and what every user sees of them. Views begin anew.
  package var isEverything = false
  /// Whether rows of everything are still to be deleted. Until they are, nothing of the upstream is stored.
  package var isUnderWay = false

  /// A commit that cleared nothing.
  package init() {}
}

/// The sequence numbers of the event log: the next free one, and the last one that is durable and visible.
///
/// A number is never used twice, not even after a failed commit, because that commit can still reappear (see
/// CommitQueue).
final class CommitLog: Sendable {
  let epoch: Atomic<UInt64>
  let run: Atomic<Int64>
  /// The sum of the times between this file's runs, by the wall clock, ms. They make nothing older, because a
  /// stop cannot be told from a clock that was set forward (B53).
  let lost: Int64
  /// How long the service has run on this file.
  let age: FileAge
  /// Whether the last transaction could not be stored.
  let isFailing = Atomic<Bool>(false)
  /// Changes with every commit that readers can see.
  let revision = Revision()
  /// The outbox's clock, which never goes back in this run (B41).
  let latestMoment = Guarded(MonotoneNow(highest: 0))
  /// How long commits took, with the sync of the disk.
  let commitTimes = TimeCounts()
  /// How long clients' writes took, from when they were queued until they were durable.
  let writeTimes = TimeCounts()
  /// The users whose changes are not known, and whom reads show nothing new.
  let rights = KnownRights()
  /// When something last changed for each user alone.
  let ownChanges: OwnChanges
  /// The changes of rows that decide what each user sees in channels.
  let memberRows = MemberRows()
  /// The messages of crowded channels, for the writer.
  let counted = CountedChannels()
  /// Changes with every commit that removed a user.
  let users = Revision()
  /// The keys of users, remembered until a user is removed.
  let knownUsers = StateMemory<UInt64, KnownUsers>(mostOfThread: 16_384, mostOfAll: 16_384)
  private let next: Guarded<Int64>
  private let committed: Atomic<Int64>
  private let observers = Guarded<[@Sendable (Commit) -> Void]>([])

  /// The most members of a channel whose rows a message changes.
  let mostChangedMembers: Int
  /// The most rows of a table that one commit clears.
  let mostCleared: Int

  init(
    epoch: UInt64, run: Int64, last: Int64, lost: Int64 = 0, age: FileAge,
    mostChangedMembers: Int = Cache.Configuration.mostChangedMembers, mostCleared: Int = Limits.clearedAtOnce
  ) {
    self.mostChangedMembers = mostChangedMembers
    self.mostCleared = mostCleared
    self.lost = lost
    self.age = age
    self.epoch = Atomic(epoch)
    self.run = Atomic(run)
    ownChanges = OwnChanges(after: last)
    next = Guarded(last + 1)
    committed = Atomic(last)
  }

  /// The last sequence that is durable.
  var head: Int64 { committed.load(ordering: .acquiring) }

  /// Calls `observer` on the writer's thread after commits with events or webhook notes. It must be quick.
  func observe(_ observer: @escaping @Sendable (Commit) -> Void) {
    observers.withLock { $0.append(observer) }
  }

  /// Called when a write failed. Its changes are undone, or it is unknown whether they are stored.
  func undone() { counted.forgetAll() }

  func begin(now: Int64) -> CacheWriter { CacheWriter(log: self, now: now) }

  func take() -> Int64 {
    next.withLock { next in
      defer { next += 1 }
      return next
    }
  }

  /// Publishes the events of a durable commit, and calls the observers.
  func end(_ writer: CacheWriter) {
    for user in writer.changedUsers { memberRows.changed(user) }
    guard let commit = writer.commit else { return }
    if let made = writer.newEpoch { epoch.store(made, ordering: .releasing) }
    committed.store(commit.sequence, ordering: .releasing)
    for observer in observers.withLock({ $0 }) { observer(commit) }
  }

  /// Writes the empty commit that follows a failed one.
  static func mark(_ db: WriteAccess) throws { try db.count(.marker) }
}
