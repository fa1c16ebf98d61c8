import CSodium
import ChatModel
import SQLite

/// Writes rows and their events. It is lent to each item of one transaction.
package final class CacheWriter {
  private let log: CommitLog
  /// The time of this transaction (wall clock, ms).
  package let now: Int64
  private var access: WriteAccess?
  private var touched = Touched()

  private struct Touched {
    var last: Int64?
    var channels: Set<ChannelKey> = []
    var users: Set<UserKey> = []
    var members: Set<Member> = []
    var changedUsers: Set<UserKey> = []
    var collections: Set<ExactText> = []
    var isForAll = false
    var connections: Set<UserKey> = []
    var cleared = Cleared()
    var lanes: Set<OutboxLaneName> = []
    var isLeaving = false
    var hasClearedRows = false
    var notedChannels: Set<ChannelURL> = []
    var freedFiles: [SpoolName] = []
    var mayFreeFiles = false
    /// The log's new epoch, if everything was cleared in this transaction.
    var epoch: UInt64?
    var accepting: KeptLane?
    var outboxMoment: Int64?
  }

  /// What the last accepted message of this transaction leaves for the next one.
  var accepting: AcceptingLane? {
    get { touched.accepting?.lane }
    set { touched.accepting = newValue.map(KeptLane.init) }
  }

  /// The moment that counts in the outbox, once a write of this transaction asked for it.
  var knownOutboxMoment: Int64? {
    get { touched.outboxMoment }
    set { touched.outboxMoment = newValue }
  }

  /// A class: each item of a commit copies `touched`, and so copies one reference and not the lane.
  private final class KeptLane {
    let lane: AcceptingLane
    init(_ lane: AcceptingLane) { self.lane = lane }
  }

  /// Begins a new epoch of the log, so that every earlier cursor expires. Readers see it after the commit.
  /// Views of messages lose their channels until they begin anew.
  func beginEpoch() throws {
    try db.execute("UPDATE collection SET channel = NULL WHERE channel IS NOT NULL")
    var made: UInt64 = 0
    randombytes_buf(&made, MemoryLayout<UInt64>.size)
    try db.set(.epoch, Int64(bitPattern: made))
    touched.epoch = made
  }

  /// Notes data that was cleared on request, so that the sync worker fetches it again after the commit.
  func noteCleared(_ body: (inout Cleared) -> Void) { body(&touched.cleared) }

  /// Notes that the lane may have something to send sooner than planned.
  func noteLane(_ lane: OutboxLaneName) { touched.lanes.insert(lane) }

  /// Notes that the last user of this cache may have left a channel.
  func noteLeaving() { touched.isLeaving = true }

  /// Notes that this transaction cleared rows that are to be deleted later.
  func noteClearedRows() { touched.hasClearedRows = true }

  /// Whether this transaction cleared rows that are to be deleted later.
  package var hasClearedRows: Bool { touched.hasClearedRows }

  /// Notes that this transaction stored a webhook note for the channel, so that the sync worker asks the
  /// upstream.
  func markNoted(in url: ChannelURL) { touched.notedChannels.insert(url) }

  /// Notes a file that no row names after this commit.
  func noteFreed(_ file: SpoolName) { touched.freedFiles.append(file) }

  /// Notes that rows were deleted whose files are not known here.
  func noteFreedFiles() { touched.mayFreeFiles = true }

  /// Notes that a row changed that decides what the user sees in channels (`PlainMember`).
  func noteRowsChanged(of user: UserKey) {
    log.memberRows.changed(user)
    touched.changedUsers.insert(user)
  }

  /// Notes that the message at that position was stored, changed or deleted.
  func noteMessage(_ position: Position, in channel: ChannelKey) { log.counted.note(position, in: channel) }

  /// Notes that messages of the channel were deleted.
  func noteMessagesDeleted(in channel: ChannelKey) { log.counted.forget(channel) }

  /// Notes that the messages of all channels were deleted.
  func noteMessagesDeleted() { log.counted.forgetAll() }

  /// The users whose rows changed in this transaction.
  var changedUsers: Set<UserKey> { touched.changedUsers }

  /// Invalidates what readers remember of users, because this transaction removes one.
  func noteRemovedUser() { log.users.unsettle() }

  /// The log's epoch after this transaction; nil if it does not change.
  var newEpoch: UInt64? { touched.epoch }

  /// The highest moment of this run so far, `wall` included.
  func latestMoment(wall: Int64) -> Int64 { log.latestMoment.withLock { $0.now(wall: wall) } }

  init(log: CommitLog, now: Int64) {
    self.log = log
    self.now = now
  }

  func open(_ db: WriteAccess) { access = db }

  /// The open transaction.
  var db: WriteAccess { access! }

  /// Reads inside the transaction, with the same functions as any reader.
  package var reader: CacheReader {
    CacheReader(db: db.reading, log: log, counted: log.counted, opened: log.head)
  }

  /// Runs one item of a commit. If the item throws, the changes it noted are forgotten.
  func item(_ body: () throws -> Void) throws {
    let before = touched
    do { try body() } catch {
      touched = before
      log.undone()
      throw error
    }
  }

  /// The channels, users and views that this transaction's events concern; nil if it has neither events nor
  /// webhook notes.
  var commit: Commit? {
    (touched.last ?? (touched.notedChannels.isEmpty ? nil : log.head)).map {
      Commit(
        sequence: $0, channels: touched.channels, users: touched.users, members: touched.members,
        collections: touched.collections, isForAll: touched.isForAll,
        connections: touched.connections, cleared: touched.cleared,
        lanes: touched.lanes, isLeaving: touched.isLeaving,
        hasClearedRows: touched.hasClearedRows, notedChannels: touched.notedChannels,
        freedFiles: touched.freedFiles, mayFreeFiles: touched.mayFreeFiles)
    }
  }

  /// The time by which rows expire: `now` without the time that passed between runs.
  var moment: Int64 { now - log.lost }

  /// How long the service has run on this file, ms.
  var age: Int64 { log.age.at(now) }

  /// Takes the sequence of the next event, for rows that must have it before the event is written.
  func takeSequence() -> Int64 { log.take() }

  /// The most members of a channel whose rows a message changes.
  var mostChangedMembers: Int { log.mostChangedMembers }

  /// The last sequence of the commits before this one.
  var lastCommitted: Int64 { log.head }

  /// Notes the channel, user and view that a new event concerns.
  func touch(_ event: Change, _ sequence: Int64) {
    touched.last = max(touched.last ?? 0, sequence)
    log.rights.note(event, at: sequence)
    log.ownChanges.note(event, at: sequence)
    switch (event.collection, event.channel, event.user) {
    case (let collection?, _, _): touched.collections.insert(ExactText(collection))
    case (nil, let channel?, let user?):
      touched.members.insert(Member(channel: channel, user: user))
      touched.users.insert(user)
    case (nil, let channel?, nil): touched.channels.insert(channel)
    case (nil, nil, let user?):
      touched.users.insert(user)
      if event.kind == .connection { touched.connections.insert(user) }
    case (nil, nil, nil): touched.isForAll = true
    }
  }
}
