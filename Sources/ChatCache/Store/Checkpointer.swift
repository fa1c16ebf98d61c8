import Glibc
import Platform
import SQLite

/// Copies the WAL into the database file and keeps the WAL small.
///
/// Three things happen, each where it costs least:
///
/// - **Passive checkpoints**, on a thread of their own, when commits have added as much as may still be added
///   before the next restart, and at least 4 MiB: at 26, 39, 45 and 49 MiB. Inside a commit they would triple
///   the latency of the slowest commits.
/// - **A restart of the WAL**, on the writer's thread between two commits, when the WAL has reached 52 MiB.
///   Under endless commits a passive checkpoint never finds a moment in which everything is copied, so the
///   WAL would grow without end. Nearly everything has been copied by then, so the writer waits for little.
///   The commit before it is answered only then. So a restart costs that commit one sync, and the next one
///   another, for the new WAL's header; together they would cost clients who send again at once both.
/// - **Truncation**, on the checkpoint thread, once nothing has been committed for some seconds.
///
/// After free pages were released, the first checkpoint that copies everything while nothing is committed
/// cuts the file. So the thread tries a checkpoint each second until the file is as short as its pages allow.
/// If none has cut the file for ten seconds, the writer restarts the WAL.
final class Checkpointer: Sendable {
  private struct State {
    /// The frames the WAL held after the last commit, and how many of those are in the file.
    var frames = 0
    var copied = 0
    /// The writer restarts the WAL when it holds so many frames.
    var restartAt = WALLimits.restartFrames
    /// Commits since the thread looked last, with or without events.
    var commits = 0
    var isStopping = false

    /// The file is to be cut to the pages it needs.
    var mustShrink = false

    /// Each checkpoint halves what the writer would have to copy at the next restart. So a page that many
    /// commits changed is copied a few times, not once for each commit.
    var isDue: Bool { frames - copied >= max(WALLimits.passiveFrames, restartAt - frames) }
  }

  private let path: String
  private let state = Watched(State())
  private let thread = ThreadSlot()
  /// Nil after the checkpoint thread has ended: the last connection to close moves the WAL into the file.
  private let connection: Guarded<Connected?>
  private let readers: ReaderPool
  /// SQLite lets one checkpoint run at a time and makes a second one fail at once, so they take turns here.
  private let turn = Lock()

  private struct Connected: @unchecked Sendable {  // because only the checkpoint thread uses it
    let connection: Connection
  }

  init(path: String, readers: ReaderPool) throws {
    self.path = path
    self.readers = readers
    let opened = try Connection(
      path: path, mode: .readWrite, busyTimeoutMilliseconds: WALLimits.truncateWaitMilliseconds)
    try opened.execute("PRAGMA wal_autocheckpoint = 0")
    // This throws if the database has no WAL, where a checkpoint does nothing.
    try opened.checkpoint(.passive)
    connection = Guarded(Connected(connection: opened))
  }

  func start() { thread.start("perch-checkpoint") { [self] in run() } }

  func stop() {
    state.update { $0.isStopping = true }
    thread.join()
    connection.withLock { $0 = nil }
  }

  /// Called after free pages were released: cuts the file as soon as the whole WAL is copied.
  func shrink() { state.update { $0.mustShrink = true } }

  /// The writer's thread calls this after every commit, before it answers.
  func committed(_ writer: Connection) {
    let frames = writer.walFrames
    let (isDue, mustRestart) = state.read { state in
      if frames < state.frames { state.copied = 0 }
      state.frames = frames
      state.commits += 1
      return (state.isDue, frames >= state.restartAt)
    }
    if mustRestart { restart(on: writer) } else if isDue { state.update { _ in } }
  }

  /// Copies the rest and lets the next commit begin the WAL anew. A reader that holds its snapshot for long
  /// prevents that: the first tries wait for it shortly, the later ones longer and less often.
  private func restart(on writer: Connection) {
    let isUrgent = writer.walFrames >= WALLimits.urgentFrames
    writer.setBusyTimeout(
      milliseconds: isUrgent ? WALLimits.urgentWaitMilliseconds : WALLimits.restartWaitMilliseconds)
    defer { writer.setBusyTimeout(milliseconds: WALLimits.writerWaitMilliseconds) }
    let result = checkpoint(writer, .restart)
    state.read { state in
      let isRestarted = result?.isWhole ?? false
      state.copied = isRestarted ? state.frames : max(state.copied, result?.done ?? 0)
      state.restartAt =
        isRestarted
        ? WALLimits.restartFrames
        : state.frames + (isUrgent ? WALLimits.urgentStepFrames : WALLimits.passiveFrames)
    }
  }

  private func run() {
    var quietLooks = 0
    var shrinkLooks: Int?
    while true {
      let deadline = Clock.system.monotonicNanoseconds() + WALLimits.lookNanoseconds
      let seen = state.wait(until: deadline) { state -> State? in
        guard state.isStopping || state.isDue || state.mustShrink else { return nil }
        return state
      }
      let now = state.read { state in
        defer { state.commits = 0 }
        return state
      }
      if now.isStopping { return }
      if state.read({ state in
        defer { state.mustShrink = false }
        return state.mustShrink
      }) {
        shrinkLooks = 0
      }
      quietLooks = now.commits == 0 ? quietLooks + 1 : 0
      if seen != nil {
        let result = checkpoint(.passive)
        // If a reader prevents copying the rest, the thread does not try the same again at once.
        let copied = result == nil ? now.frames : max(now.frames, result?.done ?? 0)
        state.read { $0.copied = min(copied, $0.frames) }
        if shrinkLooks != nil, isCut { shrinkLooks = nil }
      } else if let looks = shrinkLooks {
        _ = checkpoint(.passive)
        shrinkLooks = isCut ? nil : looks + 1
        // Under endless commits there is no moment at which everything is copied: the writer makes one.
        if looks % WALLimits.shrinkLooks == 0, looks > 0 { state.read { $0.restartAt = 0 } }
      } else if quietLooks >= WALLimits.quietLooks, walBytes > WALLimits.restingBytes {
        quietLooks = 0
        _ = checkpoint(.truncate)
      }
    }
  }

  /// On the checkpoint thread, by its own connection.
  private func checkpoint(_ mode: Connection.CheckpointMode) -> Connection.Checkpoint? {
    connection.withLock { $0 }.flatMap { checkpoint($0.connection, mode) }
  }

  /// Whether the file has no more bytes than its pages need. A checkpoint that copied everything does not
  /// prove it: if a commit ended meanwhile, the file has kept its length.
  private var isCut: Bool {
    // `try?`: if the pages cannot be counted now, the thread counts them again in a second.
    guard let pages = try? connection.withLock({ $0 })?.connection.read({ try $0.pageCount() }) else {
      return false
    }
    return bytes(of: path) <= pages.all * pages.size
  }

  private func checkpoint(
    _ connection: Connection, _ mode: Connection.CheckpointMode
  ) -> Connection.Checkpoint? {
    turn.withLock {
      do {
        return try readers.withoutKeptSnapshots { try connection.checkpoint(mode) }
      } catch {
        Log.line(.warning, "checkpoint_failed", ["reason": .text("\(error)")])
        return nil
      }
    }
  }

  /// The length of the WAL file.
  var walBytes: Int { Int(bytes(of: path + "-wal")) }

  private func bytes(of file: String) -> Int64 {
    var status = stat()
    return stat(file, &status) == 0 ? Int64(status.st_size) : 0
  }
}

/// How large the WAL becomes. A frame is one page of the database and 24 bytes before it.
enum WALLimits {
  /// The page's size in bytes.
  static let pageBytes = 16_384
  private static let frameBytes = pageBytes + 24
  /// The WAL stays under this, in bytes, unless one commit is larger or a reader holds a snapshot.
  static let boundBytes = 64 << 20
  /// A passive checkpoint follows this many new frames at the earliest (4 MiB).
  static let passiveFrames = (4 << 20) / frameBytes
  /// The writer restarts the WAL at this many frames (52 MiB). The rest is left for large commits. A commit
  /// meanwhile waits for two more syncs, so a restart should come only after more than a hundred commits.
  static let restartFrames = boundBytes / 16 * 13 / frameBytes
  /// A WAL file of at most this length is left as it is while nothing happens, in bytes.
  static let restingBytes = 4 << 20
  /// The checkpoint thread looks this often, in nanoseconds, and truncates after that many looks without a
  /// commit.
  static let lookNanoseconds: UInt64 = 1_000_000_000
  static let quietLooks = 5
  /// The writer waits this long for readers before it puts a restart off, in milliseconds.
  static let restartWaitMilliseconds: Int32 = 100
  /// From this many frames on (58 MiB) the writer waits that long instead, in milliseconds, and tries again
  /// after that many more frames (8 MiB): a reader that holds a snapshot for minutes costs it little.
  static let urgentFrames = boundBytes / 32 * 29 / frameBytes
  static let urgentWaitMilliseconds: Int32 = 1000
  static let urgentStepFrames = boundBytes / 8 / frameBytes
  /// The writer restarts the WAL after this many looks that did not cut the file.
  static let shrinkLooks = 10
  /// A truncation waits this long for readers and the writer, in milliseconds.
  static let truncateWaitMilliseconds: Int32 = 200
  /// The writer waits this long for another process's lock, in milliseconds.
  static let writerWaitMilliseconds: Int32 = 5000
}
