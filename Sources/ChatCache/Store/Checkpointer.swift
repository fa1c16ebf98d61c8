import Glibc
import Platform
import SQLite

/// Moves the WAL into the file on a thread of its own, because inside a commit it triples the commit's tail.
///
/// Normally it takes what it can without anybody waiting. If the WAL has grown past its bound all the same,
/// because commits never pause, it makes the writer wait once.
final class Checkpointer: Sendable {
  private static let wantedBytes = 4 << 20
  private static let boundBytes = 64 << 20
  /// Commits between two looks at the WAL's size.
  private static let commitsPerLook = 32
  private static let lookNanoseconds: UInt64 = 1_000_000_000

  private struct State {
    var commits = 0
    var isStopping = false
  }

  private let path: String
  private let state = Watched(State())
  private let thread = ThreadPlace()
  private let connection: Connected
  private let readers: ReaderPool

  private struct Connected: @unchecked Sendable {  // because one thread uses it
    let connection: Connection
  }

  init(path: String, readers: ReaderPool) throws {
    self.path = path
    self.readers = readers
    let opened = try Connection(path: path, mode: .readWrite, busyTimeoutMilliseconds: 1000)
    try opened.execute("PRAGMA wal_autocheckpoint = 0")
    connection = Connected(connection: opened)
  }

  func start() { thread.start("perch-checkpoint") { [self] in run() } }

  func stop() {
    state.update { $0.isStopping = true }
    thread.join()
  }

  func committed() {
    let isTime = state.read { state in
      state.commits += 1
      return state.commits >= Checkpointer.commitsPerLook
    }
    if isTime { state.update { _ in } }
  }

  private func run() {
    while true {
      let deadline = Clock.system.monotonicNanoseconds() + Checkpointer.lookNanoseconds
      let isStopping = state.wait(until: deadline) { state -> Bool? in
        if state.isStopping { return true }
        guard state.commits >= Checkpointer.commitsPerLook else { return nil }
        state.commits = 0
        return false
      }
      if isStopping == true { return }
      look()
    }
  }

  private func look() {
    let bytes = walBytes
    guard bytes > Checkpointer.wantedBytes else { return }
    do {
      _ = try readers.withoutKeptSnapshots {
        try connection.connection.checkpoint(bytes > Checkpointer.boundBytes ? .truncate : .passive)
      }
    } catch {
      Log.line(.warning, "checkpoint_failed", ["reason": .text("\(error)")])
    }
  }

  private var walBytes: Int {
    var status = stat()
    return stat(path + "-wal", &status) == 0 ? Int(status.st_size) : 0
  }
}
