import Platform
import SQLite
import Synchronization

/// The only writer of the database. All writes that wait share a transaction and its fsync; callers are
/// answered after the fsync.
///
/// A batch takes all waiting intents (writes that clients were promised), those that come while it runs, then
/// derived writes until it is long enough. A bad item never fails its neighbours: if it fails after it
/// changed something, the whole batch is rolled back and run again with each item in a savepoint. (A
/// savepoint for every item would copy each page that an item changes.) An item's body may therefore run
/// again, also when SQLite gave the whole transaction up, so it must depend on nothing but the database and
/// its captured values.
///
/// After a failed COMMIT the outcome is unknown: the commit can reappear after a crash, until another commit
/// has succeeded. So before anything else the queue commits an empty marker (B60).
///
/// If another process holds the write lock, a batch waits for the connection's busy timeout. Then all writes
/// of the batch fail, and nothing of them is stored. So a write is answered within two busy timeouts: that of
/// the batch that was running when it came, and that of its own.
final class CommitQueue: Sendable {
  /// The class of a write, which decides its turn.
  enum Importance: Sendable, Equatable {
    /// A write that a client was or will be promised.
    case intent
    /// The upstream's answer to a send, queued with the intents. `among`: the number of sends under way.
    case urgent(among: Int)
    /// A write that deletes data, to make room or because somebody waits for that. It goes before derived
    /// writes.
    case room
    /// A write of data that can be fetched from the upstream again.
    case derived
  }

  struct QueuedWrite: Sendable {
    let importance: Importance
    let body: @Sendable (CacheWriter) throws -> Void
    let finish: @Sendable (Result<Void, any Error>) -> Void
    /// When a client's write was queued (monotonic ns); 0: it is not a client's.
    fileprivate(set) var queuedAt: UInt64 = 0
  }

  private struct Waiting {
    var intents = FirstInFirstOut<QueuedWrite>()
    var derived = FirstInFirstOut<QueuedWrite>()
    var isStopping = false
  }

  /// The most intents that may wait. More are refused at once, because a disk that does not answer must not
  /// fill the memory.
  static let mostIntents = 20_000

  /// After this time no more derived writes join a batch.
  private static let derivedNanoseconds: UInt64 = 5_000_000
  /// The same while clients write: a client's write may wait for two batches, the running one and its own.
  private static let besideClientsNanoseconds: UInt64 = 2_000_000

  private let waiting = Watched(Waiting())
  /// When the last intent came (monotonic ns).
  private let lastIntent = Atomic<UInt64>(0)
  private let clock: Clock
  private let thread = ThreadSlot()

  init(clock: Clock) { self.clock = clock }

  /// Starts the writer's thread; `connection` is its own from now on. `committed` is called on that thread
  /// after each transaction, before its writes are answered, with the connection outside of any transaction.
  func start(
    _ connection: sending Connection, _ log: CommitLog,
    committed: @escaping @Sendable (Connection) -> Void = { _ in }
  ) {
    let box = Handover(connection)
    thread.start("perch-writer") { [self] in
      let writer = Writer(connection: box.take(), log: log, clock: clock)
      var restsUntil: UInt64 = 0
      var gathering = Gathering()
      while let batch = next(derivedFrom: restsUntil) {
        let began = Clock.system.monotonicNanoseconds()
        for queued in batch { gathering.took(queued.importance, at: began) }
        var arrived = 0
        writer.commit(batch, more: { more(startedAt: $0, &gathering) }) {
          committed(writer.connection)
          arrived = intentsWaiting
        }
        let now = Clock.system.monotonicNanoseconds()
        gathering = Gathering(after: gathering, arrived: arrived, began: began, ended: now)
        restsUntil = log.revision.wasRead() ? CommitQueue.rest(after: began) : 0
        if !gathering.takesDerived { restsUntil = max(restsUntil, now + Gathering.quietNanoseconds) }
      }
    }
  }

  /// Whether clients' writes came within the last second.
  var servesClients: Bool {
    let last = lastIntent.load(ordering: .relaxed)
    return last > 0 && Clock.system.monotonicNanoseconds() - last < 1_000_000_000
  }

  private var intentsWaiting: Int { waiting.read { $0.intents.count } }

  /// Queues a write; its `finish` is called on the writer's thread after the fsync.
  func submit(_ queued: QueuedWrite) {
    var queued = queued
    let refusal = waiting.update { waiting -> CacheError? in
      guard !waiting.isStopping else { return .stopping }
      switch queued.importance {
      case .derived:
        waiting.derived.append(queued)
        return nil
      case .room:
        waiting.derived.putFirst(queued)
        return nil
      case .intent:
        queued.queuedAt = Clock.system.monotonicNanoseconds()
        lastIntent.store(queued.queuedAt, ordering: .relaxed)
      case .urgent: break
      }
      guard waiting.intents.count < CommitQueue.mostIntents else { return .tooManyWaiting }
      waiting.intents.append(queued)
      return nil
    }
    if let refusal { queued.finish(.failure(refusal)) }
  }

  /// Writes everything that waits, then ends the thread. Later writes fail with `stopping`.
  func stop() {
    waiting.update { $0.isStopping = true }
    thread.join()
  }

  /// While clients read, derived writes wait after a batch for twice the batch's time. More of them then
  /// share the next commit, and values that readers remember of one revision stay valid longer.
  private static func rest(after began: UInt64) -> UInt64 {
    let now = Clock.system.monotonicNanoseconds()
    return now + min(2 * (now - began), longestRestNanoseconds)
  }

  private static let longestRestNanoseconds: UInt64 = 20_000_000

  /// The first writes of the next batch: intents at once, derived writes from `moment` on (monotonic ns).
  private func next(derivedFrom moment: UInt64) -> [QueuedWrite]? {
    let promised = waiting.wait(until: moment) { waiting in
      waiting.isStopping ? [] : waiting.intents.isEmpty ? nil : waiting.intents.takeAll()
    }
    if let promised, !promised.isEmpty { return promised }
    return waiting.wait { waiting -> [QueuedWrite]?? in
      if !waiting.intents.isEmpty { return waiting.intents.takeAll() }
      if let first = waiting.derived.takeFirst() { return [first] }
      return waiting.isStopping ? .some(nil) : nil
    } ?? nil
  }

  /// One more write for the running batch: an intent, for which the batch waits as long as `gathering` says,
  /// or a derived write.
  private func more(startedAt: UInt64, _ gathering: inout Gathering) -> QueuedWrite? {
    gathering.ran(by: Clock.system.monotonicNanoseconds())
    while true {
      let now = Clock.system.monotonicNanoseconds()
      guard gathering.isOpen(at: now) else { return moreDerived(startedAt: startedAt, &gathering) }
      let (found, isStopping) = waiting.read { ($0.intents.takeFirst(), $0.isStopping) }
      if let found {
        gathering.took(found.importance, at: now)
        return found
      }
      if isStopping { return nil }
      guard gathering.isWaiting(at: now) else { return moreDerived(startedAt: startedAt, &gathering) }
      // Other work fills the time until the next sender comes.
      if let derived = moreDerived(startedAt: startedAt, &gathering) { return derived }
      // A wait for each arrival would wake this thread once for every sender.
      Thread.rest(nanoseconds: CommitQueue.gatheringStepNanoseconds)
    }
  }

  private static let gatheringStepNanoseconds: UInt64 = 100_000

  /// One more derived write for the running batch, unless it is long enough, or an intent waits for the next
  /// one. The share of a batch with clients' writes is taken anyway: there some intent may always wait.
  private func moreDerived(startedAt: UInt64, _ gathering: inout Gathering) -> QueuedWrite? {
    let longest = servesClients ? CommitQueue.besideClientsNanoseconds : CommitQueue.derivedNanoseconds
    let now = Clock.system.monotonicNanoseconds()
    let isShare = gathering.hasClients
    guard gathering.takesDerived, isShare || now - startedAt < longest else { return nil }
    let found = waiting.read { waiting in
      isShare || waiting.intents.isEmpty ? waiting.derived.takeFirst() : nil
    }
    if let found { gathering.took(found.importance, at: now) }
    return found
  }

  /// Carries the connection to the thread that will own it.
  private final class Handover: @unchecked Sendable {  // because one thread empties it
    private var connection: Connection?
    init(_ connection: Connection) { self.connection = connection }
    func take() -> Connection {
      defer { connection = nil }
      return connection!
    }
  }
}

extension CommitQueue {
  /// Queues a write. `finish` gets its result on the writer's thread, after the fsync.
  func submit<Made: Sendable>(
    _ importance: Importance, _ body: @escaping @Sendable (CacheWriter) throws -> Made,
    finish: @escaping @Sendable (Result<Made, any Error>) -> Void
  ) {
    let made = Guarded<Made?>(nil)
    submit(
      QueuedWrite(importance: importance) { writer in
        let result = try body(writer)
        made.withLock { $0 = result }
      } finish: { outcome in
        finish(outcome.map { made.withLock { $0! } })
      })
  }

  /// Queues a write and waits until its result is durable.
  func wait<Made: Sendable>(
    _ importance: Importance, _ body: @escaping @Sendable (CacheWriter) throws -> Made
  ) throws -> Made {
    let answer = Watched<Result<Made, any Error>?>(nil)
    submit(importance, body) { result in answer.update { $0 = result } }
    return try answer.wait { $0 }!.get()
  }
}

/// Runs the transactions and savepoints on the writer's thread, and repeats them when they fail.
private final class Writer {
  let connection: Connection
  private let log: CommitLog
  private let clock: Clock
  private var needsMarker = false

  init(connection: Connection, log: CommitLog, clock: Clock) {
    self.connection = connection
    self.log = log
    self.clock = clock
  }

  /// Writes a batch and the writes that `more` adds. Calls `willAnswer` after each transaction, before the
  /// callers are answered.
  func commit(
    _ batch: [CommitQueue.QueuedWrite], more: (UInt64) -> CommitQueue.QueuedWrite?, willAnswer: () -> Void
  ) {
    var batch = batch
    do {
      if needsMarker {
        try write { try CommitLog.mark($0) }
        needsMarker = false
      }
    } catch {
      log.isFailing.store(true, ordering: .relaxed)
      for queued in batch { queued.finish(.failure(Writer.translated(error))) }
      return
    }
    let startedAt = Clock.system.monotonicNanoseconds()
    var isFirst = true
    while !batch.isEmpty {
      // The second attempt has savepoints. A transaction that SQLite gave up is tried again without the item
      // that broke it, so this ends.
      let outcome = attempt(batch, hasSavepoints: !isFirst, more: isFirst ? { more(startedAt) } : { nil })
      willAnswer()
      let now = Clock.system.monotonicNanoseconds()
      for (queued, result) in outcome.done {
        if queued.queuedAt > 0, case .success = result {
          log.writeTimes.note(nanoseconds: now - queued.queuedAt)
        }
        queued.finish(result)
      }
      batch = outcome.retry
      isFirst = false
    }
  }

  private typealias Done = [(CommitQueue.QueuedWrite, Result<Void, any Error>)]

  /// Runs one transaction. Returns the result of each write, and the writes that must be tried again.
  private func attempt(
    _ batch: [CommitQueue.QueuedWrite], hasSavepoints: Bool, more: () -> CommitQueue.QueuedWrite?
  ) -> (done: Done, retry: [CommitQueue.QueuedWrite]) {
    var done: Done = []
    var retry: [CommitQueue.QueuedWrite] = []
    let writer = log.begin(now: clock.wallMilliseconds())
    var stage = Stage.beginning
    do {
      try write { db in
        stage = .running
        writer.open(db)
        var index = 0
        while let queued = index < batch.count ? batch[index] : more() {
          index += 1
          let before = connection.changedRows
          let result = Result {
            try writer.item {
              if hasSavepoints {
                try db.savepoint { try queued.body(writer) }
              } else {
                try queued.body(writer)
              }
            }
          }
          done.append((queued, result.mapError(Writer.translated)))
          guard case .failure = result else { continue }
          if !connection.isInTransaction {
            retry = done.dropLast().map(\.0) + batch.dropFirst(index)
            done = [done.last!]
            throw TransactionLost()
          }
          if !hasSavepoints, connection.changedRows != before {
            retry = done.map(\.0) + batch.dropFirst(index)
            done = []
            throw ItemHalfDone()
          }
        }
        stage = .committing
      }
      log.end(writer)
      log.isFailing.store(false, ordering: .relaxed)
    } catch is ItemHalfDone {
      // Everything is rolled back, and each item is run again in a savepoint.
    } catch is TransactionLost {
      log.isFailing.store(true, ordering: .relaxed)
      // The broken item gets its own error; the others are run again.
    } catch {
      // A transaction that never began needs no marker.
      needsMarker = stage != .beginning
      log.isFailing.store(true, ordering: .relaxed)
      let failure = stage == .committing ? Writer.unknown(error) : Writer.translated(error)
      done =
        done.map { ($0.0, .failure(failure)) } + batch.dropFirst(done.count).map { ($0, .failure(failure)) }
    }
    return (done, retry)
  }

  /// Runs one transaction and raises the revision that readers see.
  private func write(_ body: (WriteAccess) throws -> Void) throws {
    defer {
      log.revision.settle()
      log.users.settle()
    }
    var began: UInt64 = 0
    do {
      try connection.write { db in
        try body(db)
        log.revision.unsettle()
        began = Clock.system.monotonicNanoseconds()
      }
    } catch {
      log.undone()
      throw error
    }
    log.commitTimes.note(nanoseconds: Clock.system.monotonicNanoseconds() - began)
  }

  private struct TransactionLost: Error {}
  private struct ItemHalfDone: Error {}

  /// The steps of a transaction.
  private enum Stage { case beginning, running, committing }

  /// The error for callers whose COMMIT failed.
  private static func unknown(_ error: any Error) -> any Error {
    guard let error = error as? SQLiteError, error.kind != .corrupt else { return translated(error) }
    return CacheError.outcomeUnknown(error)
  }

  private static func translated(_ error: any Error) -> any Error {
    guard let error = error as? SQLiteError, error.kind != .constraint else { return error }
    return CacheError(error)
  }
}
