import CSodium
import ChatModel
import SQLite

/// The right to change the cache, lent inside one item of a commit: rows and the events that tell of them.
package final class CacheWriter {
  private let log: CommitLog
  /// The moment of this transaction (wall clock, ms).
  package let now: Int64
  private var access: WriteAccess?
  private var touched = Touched()

  private struct Touched {
    var last: Int64?
    var channels: Set<ChannelKey> = []
    var users: Set<UserKey> = []
    var members: Set<Member> = []
    var collections: Set<ExactText> = []
    var isForAll = false
    var cleared = Cleared()
    var lanes: Set<OutboxLaneName> = []
    var isLeaving = false
    var notedChannels: Set<ChannelURL> = []
    var freedFiles: [SpoolName] = []
    var mayFreeFiles = false
    /// The log's new identity, where everything was cleared.
    var epoch: UInt64?
  }

  /// Gives the log a new identity: every cursor of before ends. Known to all after the commit.
  func beginEpoch() throws {
    var made: UInt64 = 0
    randombytes_buf(&made, MemoryLayout<UInt64>.size)
    try db.run("UPDATE meta SET value = ?1 WHERE key = 'epoch'") { $0.bind(1, Int64(bitPattern: made)) }
    touched.epoch = made
  }

  /// Remembers what was let go of on request, so that it is fetched again.
  func noteCleared(_ body: (inout Cleared) -> Void) { body(&touched.cleared) }

  /// Remembers that the lane's next turn may come sooner.
  func noteLane(_ lane: OutboxLaneName) { touched.lanes.insert(lane) }

  /// Remembers that a channel may be nobody's since.
  func noteLeaving() { touched.isLeaving = true }

  /// Remembers that a change itself noted something that is to be asked upstream in that channel.
  func markNoted(in url: ChannelURL) { touched.notedChannels.insert(url) }

  /// Remembers a file that no row names after this commit.
  func noteFreed(_ file: SpoolName) { touched.freedFiles.append(file) }

  /// Remembers that rows went whose files were not named.
  func noteFreedFiles() { touched.mayFreeFiles = true }

  /// What is known of who is here ends with this transaction.
  func noteRemovedUser() { log.users.unsettle() }

  /// The identity the log has after this transaction, where it changes.
  var newEpoch: UInt64? { touched.epoch }

  init(log: CommitLog, now: Int64) {
    self.log = log
    self.now = now
  }

  func open(_ db: WriteAccess) { access = db }

  /// The open transaction.
  var db: WriteAccess { access! }

  /// Reading inside the transaction, with the same questions as everywhere else.
  package var reader: CacheReader { CacheReader(db: db.reading, log: log) }

  /// Runs one item; what it touched is forgotten when it fails.
  func item(_ body: () throws -> Void) throws {
    let before = touched
    do { try body() } catch {
      touched = before
      throw error
    }
  }

  /// What this transaction's events concern, or nil where it has none.
  var commit: Commit? {
    touched.last.map {
      Commit(
        sequence: $0, channels: touched.channels, users: touched.users, members: touched.members,
        collections: touched.collections, isForAll: touched.isForAll, cleared: touched.cleared,
        lanes: touched.lanes, isLeaving: touched.isLeaving, notedChannels: touched.notedChannels,
        freedFiles: touched.freedFiles, mayFreeFiles: touched.mayFreeFiles)
    }
  }

  /// Now, for what is forgotten by its age: without the time that passed between runs.
  var moment: Int64 { now - log.lost }

  /// How long the service has run on this file, ms.
  var age: Int64 { log.age.at(now) }

  /// The number of the next event, for rows that must carry it before the event is complete.
  func takeSequence() -> Int64 { log.take() }

  /// The last event of the commits before this one.
  var lastCommitted: Int64 { log.head }

  /// Remembers whom an event that was just written concerns.
  func touch(_ event: Change, _ sequence: Int64) {
    touched.last = max(touched.last ?? 0, sequence)
    switch (event.collection, event.channel, event.user) {
    case (let collection?, _, _): touched.collections.insert(ExactText(collection))
    case (nil, let channel?, let user?):
      touched.members.insert(Member(channel: channel, user: user))
      touched.users.insert(user)
    case (nil, let channel?, nil): touched.channels.insert(channel)
    case (nil, nil, let user?): touched.users.insert(user)
    case (nil, nil, nil): touched.isForAll = true
    }
  }
}
