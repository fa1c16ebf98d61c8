import Platform

/// Removes orphans from the spool: at the start, every ten minutes, and after a commit that deleted many
/// rows. After other commits it removes the files that they freed.
final class SpoolJanitor: Sendable {
  private static let lookNanoseconds: UInt64 = 600_000_000_000

  private struct State {
    /// Files that commits freed.
    var freed: [SpoolName] = []
    var isLookWanted = true
    var isStopping = false
  }

  private let spool: Spool
  private let readers: ReaderPool
  private let log: CommitLog
  private let state = Watched(State())
  private let thread = ThreadSlot()

  init(_ spool: Spool, _ readers: ReaderPool, _ log: CommitLog) {
    self.spool = spool
    self.readers = readers
    self.log = log
  }

  func start() { thread.start("perch-janitor") { [self] in run() } }

  func stop() {
    state.update { $0.isStopping = true }
    thread.join()
  }

  /// Called on the writer's thread after a durable commit.
  func committed(_ commit: Commit) {
    guard !commit.freedFiles.isEmpty || commit.mayFreeFiles else { return }
    state.update { state in
      state.freed += commit.freedFiles
      state.isLookWanted = state.isLookWanted || commit.mayFreeFiles
    }
  }

  private func run() {
    var nextLook: UInt64 = 0
    while true {
      let work = state.wait(until: nextLook) { state -> State? in
        guard state.isStopping || state.isLookWanted || !state.freed.isEmpty else { return nil }
        defer {
          state.freed = []
          state.isLookWanted = false
        }
        return state
      }
      if work?.isStopping ?? false { return }
      for name in work?.freed ?? [] { spool.remove(name) }
      // Freed files may come without end: the next look comes all the same.
      let now = Clock.system.monotonicNanoseconds()
      guard work?.isLookWanted ?? true || now >= nextLook else { continue }
      nextLook = now + SpoolJanitor.lookNanoseconds
      do { try look() } catch {
        Log.line(.warning, "spool_not_looked_through", ["reason": .text("\(error)")])
      }
    }
  }

  /// Removes the orphans of the whole folder. The order of its reads is that of `SpoolRoom`.
  func look() throws {
    let listed = try spool.list()
    let open = spool.open
    let rows = try readers.readAnew(log) { try $0.spooledFiles() }
    let orphans = SpoolRoom.orphans(listed: listed.map(\.name), open: open, rows: rows)
    // An open file counts when it is whole. It may be removed before it is.
    let others = open.union(orphans)
    spool.take(listed.filter { !others.contains($0.name) })
    for name in orphans { spool.remove(name) }
    if !orphans.isEmpty {
      Log.line(.info, "spool_files_removed", ["count": .number(Int64(orphans.count))])
    }
  }
}
