import ChatModel
import Platform
import SQLite

/// Deletes rows that were cleared (B58), events and other rows that are older than the retention (B53), and
/// channels that no user of this cache is in any more. Runs on a thread of its own.
///
/// It runs after a clear, after many new events, and every few seconds. It deletes in slices through the
/// writer's queue, as derived writes, so that clients' writes go between the slices.
final class Upkeep: Sendable {
  private static let lookNanoseconds: UInt64 = 10_000_000_000

  private struct State {
    /// The last event, and the last event at the time of the previous run.
    var last: Int64
    var lookedAt: Int64
    /// Whether a channel may have lost its last user or its last event since the previous run. True at the
    /// start, when that is unknown.
    var mayBeLeft = true
    /// Whether there may be cleared rows. True at the start, when that is unknown.
    var mayBeCleared = true
    var isRemovingCleared = false
    /// The requests that wait until no cleared rows are left.
    var whenCleared: [@Sendable () -> Void] = []
    var isStopping = false

    mutating func takeWhenCleared() -> [@Sendable () -> Void] {
      defer { whenCleared = [] }
      return whenCleared
    }
  }

  /// The number of events up to a sequence, so that only later ones are counted next time.
  private struct Count {
    let epoch: UInt64
    var rows: Int64
    var through: Int64
  }

  private let retention: Retention
  private let clock: Clock
  private let readers: ReaderPool
  private let queue: CommitQueue
  private let log: CommitLog
  private let state: Watched<State>
  private let count = Guarded<Count?>(nil)
  private let trimming = Lock()
  private let thread = ThreadSlot()

  init(_ configuration: Cache.Configuration, _ readers: ReaderPool, _ queue: CommitQueue, _ log: CommitLog) {
    retention = configuration.retention
    clock = configuration.clock
    self.readers = readers
    self.queue = queue
    self.log = log
    state = Watched(State(last: log.head, lookedAt: log.head))
  }

  func start() { thread.start("perch-upkeep") { [self] in run() } }

  func stop() {
    state.update { $0.isStopping = true }
    thread.join()
    for told in state.read({ $0.takeWhenCleared() }) { told() }
  }

  /// Calls `told` once when the rows are deleted that were cleared before this call, when deleting them
  /// fails, or when the cache closes. True: there are no such rows, and `told` is not called.
  func areClearedRowsDeleted(else told: @escaping @Sendable () -> Void) -> Bool {
    state.read { state in
      guard state.mayBeCleared || state.isRemovingCleared, !state.isStopping else { return true }
      state.whenCleared.append(told)
      return false
    }
  }

  /// Called on the writer's thread after a durable commit. Wakes the upkeep only after enough events.
  func committed(_ commit: Commit) {
    let isTime = state.read { state in
      state.last = commit.sequence
      state.mayBeLeft = state.mayBeLeft || commit.isLeaving
      state.mayBeCleared = state.mayBeCleared || commit.hasClearedRows
      return commit.hasClearedRows || commit.sequence - state.lookedAt >= retention.slack
    }
    if isTime { state.update { _ in } }
  }

  private func run() {
    var look = Clock.system.monotonicNanoseconds() + Upkeep.lookNanoseconds
    // False after a failure, until the next look.
    var mayRemove = true
    while true {
      let isStopping = state.wait(until: look) { state -> Bool? in
        if state.isStopping { return true }
        let isDue = mayRemove && state.mayBeCleared || state.last - state.lookedAt >= retention.slack
        return isDue ? false : nil
      }
      if isStopping == true { return }
      let isLook = isStopping == nil
      let isMany = state.read { $0.last - $0.lookedAt >= retention.slack }
      mayRemove =
        (mayRemove || isLook || isMany) && attempt("cleared_rows_not_deleted") { try removeCleared() }
      guard isLook || isMany else { continue }
      state.read { $0.lookedAt = $0.last }
      _ = attempt("trimming_failed") { try trim() }
      _ = attempt("left_channels_not_removed") { try removeLeft() }
      look = Clock.system.monotonicNanoseconds() + Upkeep.lookNanoseconds
    }
  }

  /// Runs `body`. If it fails, logs `event` and returns false.
  private func attempt(_ event: StaticString, _ body: () throws -> Void) -> Bool {
    do {
      try body()
      return true
    } catch {
      Log.line(.warning, event, ["reason": .text("\(error)")])
      return false
    }
  }

  /// Deletes the rows that were cleared, slice by slice.
  func removeCleared() throws {
    try trimming.withLock {
      let mayBeCleared = state.read { state in
        state.isRemovingCleared = state.mayBeCleared
        state.mayBeCleared = false
        return state.isRemovingCleared
      }
      guard mayBeCleared else { return }
      do { try removeAllCleared() } catch {
        endRemoving { state in
          state.mayBeCleared = true
          return state.takeWhenCleared()
        }
        throw error
      }
      endRemoving { $0.mayBeCleared ? [] : $0.takeWhenCleared() }
    }
  }

  private func endRemoving(_ take: (inout State) -> [@Sendable () -> Void]) {
    let told = state.read { state in
      state.isRemovingCleared = false
      return take(&state)
    }
    for call in told { call() }
  }

  private var isStopping: Bool { state.read { $0.isStopping } }

  private func removeAllCleared() throws {
    let (channels, users, isAll) = try readers.read(log) {
      (try $0.clearedChannels(), try $0.removedUsers(), try $0.clearsEverything() != nil)
    }
    // If a damaged row makes one deletion fail, the other deletions still run.
    var failure: (any Error)?
    func attempt(_ body: () throws -> Void) {
      do { try body() } catch { failure = failure ?? error }
    }
    attempt {
      while isAll, !isStopping, try queue.wait(.derived, { try $0.removeSliceOfEverything() }) {}
    }
    for channel in channels {
      attempt {
        var reached: ClearedReach? = ClearedReach()
        while let after = reached, !isStopping {
          reached = try queue.wait(.derived) { try $0.removeSlice(ofCleared: channel, after: after) }
        }
      }
    }
    for user in users {
      attempt { while !isStopping, try queue.wait(.derived, { try $0.removeSlice(ofRemoved: user) }) {} }
    }
    if let failure { throw failure }
  }

  /// The most channels that one query returns.
  private static let channels = 100

  /// Deletes the data of channels that no user of this cache is in, slice by slice.
  func removeLeft() throws {
    try trimming.withLock {
      let mayBeLeft = state.read { state in
        defer { state.mayBeLeft = false }
        return state.mayBeLeft
      }
      guard mayBeLeft else { return }
      do { try removeAllLeft() } catch {
        state.read { $0.mayBeLeft = true }
        throw error
      }
    }
  }

  private func removeAllLeft() throws {
    var reached = ChannelKey(0)
    while true {
      let found = try readers.read(log) { [reached] in
        try $0.leftChannels(after: reached, atMost: Upkeep.channels)
      }
      for channel in found {
        repeat {
          if isStopping { return }
        } while try queue.wait(.derived, { try $0.removeSlice(ofLeft: channel) })
        reached = channel
      }
      if found.count < Upkeep.channels { return }
    }
  }

  /// Deletes the events and other rows that are past the retention, slice by slice.
  func trim() throws {
    try trimming.withLock {
      do {
        while try isDue(), try !trimSlice() {}
      } catch {
        count.withLock { $0 = nil }
        throw error
      }
    }
  }

  private func isDue() throws -> Bool {
    guard !isStopping else { return false }
    return try surplus() > 0
      || readers.read(log) { try $0.hasOutlived(retention, now: clock.wallMilliseconds() - log.lost) }
  }

  /// Deletes one slice. True: it was the last.
  private func trimSlice() throws -> Bool {
    let (retention, surplus) = (retention, try surplus())
    let trimmed = try queue.wait(.derived) { try $0.trim(retention, surplus: surplus) }
    count.withLock { $0?.rows -= Int64(trimmed.events) }
    if trimmed.events > 0 { state.read { $0.mayBeLeft = true } }
    return !trimmed.isFull
  }

  /// The number of events beyond the retention. Events are counted only if the log's range of sequences is
  /// longer than that.
  private func surplus() throws -> Int64 {
    try readers.read(log) { reader in
      let epoch = log.epoch.load(ordering: .relaxed)
      guard try reader.logLength() > retention.events else {
        count.withLock { $0 = nil }
        return 0
      }
      let known = count.withLock { $0?.epoch == epoch ? $0 : nil } ?? Count(epoch: epoch, rows: 0, through: 0)
      let added = try reader.countEvents(after: known.through)
      let counted = Count(epoch: epoch, rows: known.rows + added.rows, through: added.last)
      count.withLock { $0 = counted }
      return max(0, counted.rows - retention.events)
    }
  }
}
