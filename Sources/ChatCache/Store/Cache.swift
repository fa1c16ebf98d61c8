import ChatModel
import Glibc
import Platform
import SQLite
import Synchronization

/// The one owner of the database. Reading happens on the caller's thread, writing on the writer's.
///
/// `read` lends a snapshot; `accept` and `write` call `finish` after the fsync. All brackets are the
/// transaction. No writing call waits: a thread of one's own that may wait for the disk uses `blocking`.
package final class Cache: Sendable {
  /// Where the cache lives and whose it is.
  package struct Configuration: Sendable {
    /// The data directory.
    package var directory: String
    /// The upstream the directory is bound to: its url and application, or nil for none yet.
    package var upstream: String?
    /// Rows of an index walk kept mapped, in bytes.
    package var mappedBytes: Int64 = 256 << 20
    /// How large it may become.
    package var limit = CacheLimit()
    /// How many bytes of files unsent messages may have.
    package var spoolBytes = 1 << 30
    /// The clocks.
    package var clock: Clock
    /// How much of the past is kept.
    package var retention = Retention()

    /// A cache in `directory`.
    package init(directory: String, upstream: String? = nil, clock: Clock = .system) {
      self.directory = directory
      self.upstream = upstream
      self.clock = clock
    }
  }

  /// A data directory that is this process's alone, before its cache is opened.
  package struct Ownership: Sendable {
    let lock: DirectoryLock

    /// Takes the directory, making it where it is missing; names the owner where there is one (B65).
    package init(of directory: String) throws {
      umask(0o077)
      lock = try DirectoryLock(directory: directory)
    }
  }

  let configuration: Configuration
  let log: CommitLog
  /// How much of its limit is used.
  package let usage: CacheUsage
  /// How large it may become.
  package var limit: CacheLimit { usage.limit }
  /// Now, for measuring ages: without the time between runs (ms).
  package var moment: Int64 { clock.wallMilliseconds() - log.lost }

  /// The clocks this cache was given.
  package var clock: Clock { configuration.clock }
  private let lock: DirectoryLock
  let queue: CommitQueue
  let readers: ReaderPool
  /// What requests are decided by, between two commits.
  let memory = StateMemory<UInt64, FoundAccess>(mostOfThread: 192, mostOfAll: 1536)
  /// The keys of users, by the state of the users alone.
  let knownUsers = StateMemory<UInt64, KnownUsers>(mostOfThread: 4096, mostOfAll: 4096)
  private let checkpointer: Checkpointer
  private let upkeep: Upkeep
  private let evictor: Evictor
  private let janitor: SpoolJanitor
  /// The files of unsent messages.
  package let spool: Spool

  /// Opens the directory's cache, making or migrating it; `progress` hears of migration steps.
  ///
  /// `ownership`: of the directory, where it was taken before; else it is taken here (B65).
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

  /// Looks through the spool now and on this thread; else it happens by itself.
  package func tidySpool() throws { try janitor.look() }

  /// Lets what waits be written, ends the threads and gives the directory back.
  package func close() {
    spool.stop()
    janitor.stop()
    upkeep.stop()
    evictor.stop()
    // Nobody waits for it: where it cannot be written, the file is as old as its last event says.
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

  /// The same without a kept snapshot: reads the file's present content, by whichever process it was written.
  func readAnew<Result: ~Copyable>(_ body: (CacheReader) throws -> Result) throws -> Result {
    try readers.readAnew(log, body)
  }

  /// Stores a write that a client is told to be durable, and calls `finish` on the writer's thread after the
  /// fsync.
  package func accept<Result: Sendable>(
    _ body: @escaping @Sendable (CacheWriter) throws -> Result,
    finish: @escaping @Sendable (Swift.Result<Result, any Error>) -> Void
  ) {
    queue.submit(.intent, body, finish: finish)
  }

  /// Stores what came from upstream, and calls `finish` on the writer's thread after the fsync. `sends`: not
  /// after other work of that kind, but with what clients are promised; so many sends are under way, and most
  /// of their answers share a commit.
  package func write<Result: Sendable>(
    sends: Int? = nil, _ body: @escaping @Sendable (CacheWriter) throws -> Result,
    finish: @escaping @Sendable (Swift.Result<Result, any Error>) -> Void
  ) {
    queue.submit(sends.map { .urgent(among: $0) } ?? .derived, body, finish: finish)
  }

  /// The commits in which listings of a channel are stored: one, or while clients write several short ones,
  /// because a client's write waits for the commit that is running. Above what is cached a listing from the
  /// newest end stays whole: a part of it would show a gap.
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

  /// Deletes rows past their retention, and channels without a user of this cache, now and on this thread
  /// (B53); the background trimmer does the same over time.
  package func trim() throws {
    try upkeep.trim()
    try upkeep.removeLeft()
  }

  /// A client asks. The first one after a start has the cache's size looked at (B55).
  package func noteConnection() { evictor.connected() }

  /// A page of the channel's messages is read at that moment (wall ms): it was used (B22). Stored later, at
  /// most once a minute.
  package func noteAccess(_ channel: ChannelKey, at moment: Int64) {
    evictor.stamps.note(channel, at: moment)
  }

  /// Stores now and on this thread when channels were read; else it happens by itself.
  package func storeAccess() throws { try evictor.storeStamps() }

  /// Has the cache keep to another limit, or another order, from now on (B55, B56).
  package func setLimit(_ limit: CacheLimit) {
    usage.set(limit)
    evictor.limitChanged()
  }

  /// Brings the cache below its limit now and on this thread; else it happens by itself (B55).
  package func evict() throws { try evictor.pass() }

  /// Gives the file's free pages back now and on this thread; else it happens by itself (B55).
  package func shrink() throws { try evictor.shrink() }

  /// How long commits took.
  package var commitTimes: TimeCounts { log.commitTimes }

  /// The length of the write-ahead log's file, in bytes.
  package var walBytes: Int { checkpointer.walBytes }

  /// Whether what was last to be stored could not be.
  package var isFailingToWrite: Bool { log.isFailing.load(ordering: .relaxed) }

  /// The last durable sequence of the log.
  package var cursor: EventCursor {
    EventCursor(
      epoch: log.epoch.load(ordering: .relaxed), run: log.run.load(ordering: .relaxed), sequence: log.head)
  }

  /// Calls `observer` after every commit that has events, on the writer's thread: it must be quick.
  package func onCommit(_ observer: @escaping @Sendable (Commit) -> Void) { log.observe(observer) }
}

/// How the file is used. Its pages are large because messages lie in the order they are read: thirty of them
/// are in one page or two, and a long one still fits beside others.
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

  /// A file that was made by another program may be unable to give pages back: only a whole rewrite changes
  /// that, and a start does not wait for one.
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
