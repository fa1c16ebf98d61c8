import ChatModel
import Glibc
import Platform
import SQLite
import Synchronization

/// The one owner of the database. Reading happens on the caller's thread, writing on the writer's.
///
/// `read` lends a snapshot; `accept` and `write` call `finish` after the fsync. The closure of each call runs
/// inside one transaction. No writing call waits; a thread that may wait for the disk uses `blocking`.
package final class Cache: Sendable {
  /// The data directory, the upstream, the limits and the clock of a cache.
  package struct Configuration: Sendable {
    /// The data directory.
    package var directory: String
    /// The upstream the directory is bound to: its url and application, or nil for none yet.
    package var upstream: String?
    /// The most bytes of the file that each reader maps into memory (`mmap_size`).
    package var mappedBytes: Int64 = 256 << 20
    /// The maximum size, and the order of eviction.
    package var limit = CacheLimit()
    /// The most bytes that the files of unsent messages may have.
    package var spoolBytes = 1 << 30
    /// The wall clock and the monotonic clock.
    package var clock: Clock
    /// How much of the past is kept.
    package var retention = Retention()
    /// The most members of a channel whose rows a message changes. A channel with more is crowded.
    package var mostChangedMembers = Configuration.mostChangedMembers
    /// The usual value: a message then costs the writer less than a millisecond.
    package static let mostChangedMembers = 100
    /// The most rows of a table that one commit clears (B58).
    package var mostCleared = Limits.clearedAtOnce

    /// A cache in `directory`.
    package init(directory: String, upstream: String? = nil, clock: Clock = .system) {
      self.directory = directory
      self.upstream = upstream
      self.clock = clock
    }
  }

  /// The lock on a data directory, taken before its cache is opened.
  package struct Ownership: Sendable {
    let lock: DirectoryLock

    /// Makes the directory if it is missing, and locks it. Throws the pid of another owner (B65).
    package init(of directory: String) throws {
      umask(0o077)
      lock = try DirectoryLock(directory: directory)
    }
  }

  let configuration: Configuration
  let log: CommitLog
  /// How much of its limit is used.
  package let usage: CacheUsage
  /// The maximum size, and the order of eviction.
  package var limit: CacheLimit { usage.limit }
  /// The present moment for measuring ages: the wall clock without the time between runs (ms).
  package var moment: Int64 { clock.wallMilliseconds() - log.lost }

  /// The clocks this cache was given.
  package var clock: Clock { configuration.clock }
  private let lock: DirectoryLock
  let queue: CommitQueue
  let readers: ReaderPool
  /// The channel views and coverages that requests have read since the last commit.
  let memory = StateMemory<UInt64, FoundAccess>(mostOfThread: 192, mostOfAll: 1536)
  /// The counts of unread messages in crowded channels, of the users who asked last.
  let followedCounts = FollowedCountsMemory()
  private let checkpointer: Checkpointer
  private let upkeep: Upkeep
  private let evictor: Evictor
  private let janitor: SpoolJanitor
  /// The files of unsent messages.
  package let spool: Spool

  /// Opens the directory's cache, and creates or migrates it. Calls `progress` before each migration step.
  ///
  /// `ownership`: the lock on the directory; nil: this call locks it (B65).
  package init(
    _ configuration: Configuration, ownership: Ownership? = nil,
    progress: @Sendable (MigrationProgress) -> Void = { _ in }
  ) throws {
    self.configuration = configuration
    lock = try ownership?.lock ?? Ownership(of: configuration.directory).lock
    let path = configuration.directory + "/perch.db"
    do {
      let connection = try Connection(path: path)
      try Pragmas.prepareWriter(connection)
      try Migration.run(connection, progress: progress)
      log = try Identity.begin(connection, configuration)
      readers = ReaderPool(path: path, mappedBytes: configuration.mappedBytes)
      checkpointer = try Checkpointer(path: path, readers: readers)
      queue = CommitQueue(clock: configuration.clock)
      connection.countWALFrames()
      try connection.syncWALOnce()
      usage = CacheUsage(configuration.limit)
      usage.measured(try connection.read { try $0.pageCount() })
      try Pragmas.checkVacuum(connection)
      evictor = Evictor(usage, readers, checkpointer, queue, log, clock: configuration.clock)
      let (checkpointer, evictor) = (checkpointer, evictor)
      queue.start(connection, log) {
        checkpointer.committed($0)
        evictor.committed($0)
      }
      upkeep = Upkeep(configuration, readers, queue, log)
      spool = try Spool(configuration.directory + "/spool", most: configuration.spoolBytes)
      janitor = SpoolJanitor(spool, readers, log)
    } catch let error as SQLiteError {
      throw CacheError(error)
    }
    checkpointer.start()
    upkeep.start()
    evictor.start()
    let upkeep = upkeep
    log.observe { upkeep.committed($0) }
    spool.start()
    janitor.start()
    let janitor = janitor
    log.observe { janitor.committed($0) }
  }

  /// Removes orphans from the spool now, on this thread. The janitor's thread does the same over time.
  package func tidySpool() throws { try janitor.look() }

  /// Commits the queued writes, ends the threads and unlocks the directory.
  package func close() {
    spool.stop()
    janitor.stop()
    upkeep.stop()
    evictor.stop()
    // An error is ignored: the next run then takes the age that the last event shows.
    queue.submit(.derived, { try $0.noteAge() }, finish: { _ in })
    queue.stop()
    checkpointer.stop()
    readers.close()
    lock.release()
  }

  deinit { close() }

  /// Lends one snapshot to `body` on this thread.
  package func read<Result: ~Copyable>(_ body: (CacheReader) throws -> Result) throws -> Result {
    try readers.read(log, body)
  }

  /// Lends a new snapshot, never a kept one. It also has the commits of other processes.
  func readAnew<Result: ~Copyable>(_ body: (CacheReader) throws -> Result) throws -> Result {
    try readers.readAnew(log, body)
  }

  /// Stores a client's write, before data from the upstream, and calls `finish` on the writer's thread after
  /// the fsync.
  package func accept<Result: Sendable>(
    _ body: @escaping @Sendable (CacheWriter) throws -> Result,
    finish: @escaping @Sendable (Swift.Result<Result, any Error>) -> Void
  ) {
    queue.submit(.intent, body, finish: finish)
  }

  /// Stores data from the upstream, and calls `finish` on the writer's thread after the fsync. `sends`: if
  /// the data is the answer to a send, the number of sends under way. Such a write is queued with the
  /// clients' writes, and most answers share a commit.
  package func write<Result: Sendable>(
    sends: Int? = nil, _ body: @escaping @Sendable (CacheWriter) throws -> Result,
    finish: @escaping @Sendable (Swift.Result<Result, any Error>) -> Void
  ) {
    queue.submit(sends.map { .urgent(among: $0) } ?? .derived, body, finish: finish)
  }

  /// Divides listings of a channel among commits: one, or several short ones while clients write, because a
  /// client's write waits for the running commit. If the channel has covered messages, a listing from the
  /// newest end stays whole, because a part of it would show a gap.
  package func commits(
    of listings: [MessageListing], in url: ChannelURL, _ context: ListingContext
  ) throws -> [[MessageListing]] {
    guard queue.servesClients, listings.count == 1, let listing = listings.first, !context.settlesDoubts,
      context.hugeMissing == nil
    else { return [listings] }
    if listing.window.anchor == .newest, try read({ try $0.line(of: url) })?.newest != nil {
      return [listings]
    }
    return listing.parts(ofRows: Cache.rowsBesideClients).map { [$0] }
  }

  /// The most messages of a listing that one commit stores while clients write.
  private static let rowsBesideClients = 32

  /// Whether the rows are deleted that were cleared before this call (B58). False: `told` is called once,
  /// when they are deleted, when deleting them fails, or when the cache closes.
  package func areClearedRowsDeleted(else told: @escaping @Sendable () -> Void) -> Bool {
    upkeep.areClearedRowsDeleted(else: told)
  }

  /// Deletes cleared rows, rows past their retention, and channels without a user of this cache, now and on
  /// this thread (B53, B58); the upkeep's thread does the same over time.
  package func trim() throws {
    try upkeep.removeCleared()
    try upkeep.trim()
    try upkeep.removeLeft()
  }

  /// Notes a client's request. After the first one since a start the evictor checks the cache's size (B55).
  package func noteConnection() { evictor.connected() }

  /// Notes that a page of the channel's messages was read at that moment (wall ms), for B22. The moment is
  /// stored later, at most once a minute.
  package func noteAccess(_ channel: ChannelKey, at moment: Int64) {
    evictor.stamps.note(channel, at: moment)
  }

  /// Stores now, on this thread, when channels were read. The evictor's thread does the same over time.
  package func storeAccess() throws { try evictor.storeStamps() }

  /// Sets another limit or another order of eviction (B55, B56).
  package func setLimit(_ limit: CacheLimit) {
    usage.set(limit)
    evictor.limitChanged()
  }

  /// Brings the cache below its limit now, on this thread. The evictor's thread does so over time (B55).
  package func evict() throws { try evictor.pass() }

  /// Releases the file's free pages now, on this thread. The evictor's thread does so over time (B55).
  package func shrink() throws { try evictor.shrink() }

  /// How long commits took.
  package var commitTimes: TimeCounts { log.commitTimes }
  /// How long clients' writes took, from when they were queued until they were durable.
  package var writeTimes: TimeCounts { log.writeTimes }

  /// The length of the write-ahead log's file, in bytes.
  package var walBytes: Int { checkpointer.walBytes }

  /// Whether the last transaction could not be stored.
  package var isFailingToWrite: Bool { log.isFailing.load(ordering: .relaxed) }

  /// The cursor after the last durable event.
  package var cursor: EventCursor {
    EventCursor(
      epoch: log.epoch.load(ordering: .relaxed), run: log.run.load(ordering: .relaxed), sequence: log.head)
  }

  /// Calls `observer` on the writer's thread after commits with events or webhook notes. It must be quick.
  package func onCommit(_ observer: @escaping @Sendable (Commit) -> Void) { log.observe(observer) }
}

/// SQLite's settings. Pages are large because messages are stored in the order in which they are read: thirty
/// messages take one page or two, and a long message still fits beside others.
enum Pragmas {
  static func prepareWriter(_ connection: Connection) throws {
    try connection.execute(
      """
      PRAGMA page_size = \(WALLimits.pageBytes);
      PRAGMA auto_vacuum = INCREMENTAL;
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      PRAGMA foreign_keys = ON;
      PRAGMA wal_autocheckpoint = 0;
      PRAGMA cache_size = -16000;
      PRAGMA temp_store = MEMORY;
      """)
  }

  /// Logs a warning if the file was made without `auto_vacuum` and so cannot release pages. Only VACUUM
  /// changes that, and a start does not wait for it.
  static func checkVacuum(_ connection: Connection) throws {
    let mode = try connection.read { try $0.first("PRAGMA auto_vacuum") { $0.int64(0) } }
    guard mode == 0 else { return }
    Log.line(
      .warning, "file_keeps_its_size",
      [
        "reason": "it was made without auto_vacuum: free pages are used again, and not given back",
        "remedy": "stop the service; sqlite3 perch.db 'PRAGMA auto_vacuum = 2; VACUUM'",
      ])
  }

  static func prepareReader(_ connection: Connection, mappedBytes: Int64) throws {
    try connection.execute(
      """
      PRAGMA query_only = ON;
      PRAGMA cache_size = -4000;
      PRAGMA temp_store = MEMORY;
      PRAGMA mmap_size = \(mappedBytes);
      """)
  }
}
