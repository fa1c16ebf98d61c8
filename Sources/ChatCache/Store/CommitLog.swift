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

/// What one commit touched: whom to wake.
package struct Commit: Sendable {
  /// The last event of the commit; readers opened from now on see everything up to it.
  package let sequence: Int64
  /// The channels in which something changed for all who may see it.
  package let channels: Set<ChannelKey>
  /// The users for whom alone something changed, in whatever channel.
  package let users: Set<UserKey>
  /// Where something changed in a channel for one user alone.
  package let members: Set<Member>
  /// The collections that an event of the commit names.
  package let collections: Set<ExactText>
  /// Whether something changed for everybody.
  package let isForAll: Bool
  /// The users whose own connection changed.
  package let connections: Set<UserKey>
  /// What was let go of on request, and is to be fetched again.
  package let cleared: Cleared
  /// Lanes of unsent rows that changed by something else than their own turn.
  package let lanes: Set<OutboxLaneName>
  /// Whether a user left a channel or was removed: the channel may be without users now.
  let isLeaving: Bool
  /// Channels in which the commit itself noted something that is to be asked upstream.
  package let notedChannels: Set<ChannelURL>
  /// Files that no row names any more.
  let freedFiles: [SpoolName]
  /// Whether rows went whose files are not among these.
  let mayFreeFiles: Bool
}

/// The channels that one commit emptied because a client or an operator cleared the cache (B58).
package struct Cleared: Sendable, Equatable {
  /// The channels whose messages were cleared.
  package var channels: Set<ChannelURL> = []
  /// Whether everything was cleared: channels, what every user sees of them, views.
  package var isEverything = false

  /// A commit that cleared nothing.
  package init() {}
}

/// The sequence numbers of the event log: the next free one, and the last one that is durable and visible.
///
/// A number is never used twice, not even after a commit that failed: it could still come back (see
/// CommitQueue).
final class CommitLog: Sendable {
  let epoch: Atomic<UInt64>
  let run: Atomic<Int64>
  /// Milliseconds that the wall clock went on between this file's runs, all together: nobody can tell a stop
  /// from a clock that was set forward, so they make nothing older (B53).
  let lost: Int64
  /// How long the service has run on this file.
  let age: FileAge
  /// Whether the last transaction could not be stored.
  let isFailing = Atomic<Bool>(false)
  /// Changes with every commit that readers can see.
  let revision = Revision()
  /// The highest moment at which the outbox changed in this run.
  let latestMoment = Guarded(MonotoneNow(highest: 0))
  /// How long commits took, with the sync of the disk.
  let commitTimes = TimeCounts()
  /// Changes with every commit that removed a user.
  let users = Revision()
  private let next: Guarded<Int64>
  private let committed: Atomic<Int64>
  private let observers = Guarded<[@Sendable (Commit) -> Void]>([])

  init(epoch: UInt64, run: Int64, last: Int64, lost: Int64 = 0, age: FileAge) {
    self.lost = lost
    self.age = age
    self.epoch = Atomic(epoch)
    self.run = Atomic(run)
    next = Guarded(last + 1)
    committed = Atomic(last)
  }

  /// The last sequence that is durable.
  var head: Int64 { committed.load(ordering: .acquiring) }

  /// Calls `observer` after every commit that has events or questions for the upstream, on the writer's
  /// thread: it must be quick.
  func observe(_ observer: @escaping @Sendable (Commit) -> Void) {
    observers.withLock { $0.append(observer) }
  }

  func begin(now: Int64) -> CacheWriter { CacheWriter(log: self, now: now) }

  func take() -> Int64 {
    next.withLock { next in
      defer { next += 1 }
      return next
    }
  }

  /// The commit is durable: publish its events and tell everybody who watches.
  func end(_ writer: CacheWriter) {
    guard let commit = writer.commit else { return }
    if let made = writer.newEpoch { epoch.store(made, ordering: .releasing) }
    committed.store(commit.sequence, ordering: .releasing)
    for observer in observers.withLock({ $0 }) { observer(commit) }
  }

  /// The empty commit after a failed one.
  static func mark(_ db: WriteAccess) throws {
    try db.run(
      """
      INSERT INTO meta (key, value)
      VALUES ('marker', 1)
      ON CONFLICT (key) DO UPDATE SET value = value + 1
      """)
  }
}
