import ChatModel
import Platform
import SQLite
import Synchronization

/// Keeps the cache within its limit, on a thread of its own (B55, B57).
///
/// A pass begins when a commit crosses the limit, and, after a start, with the first client that connects. It
/// evicts slice by slice through the writer's queue until 85 % of the limit is used: clients' sends go
/// between the slices. A pass that a stop interrupted goes on with the first client of the next run. If
/// nothing is left to evict, the evictor logs that once and tries again every 30 s. Some seconds after a pass
/// it gives the file's free pages back, in slices as short.
final class Evictor: Sendable {
  private struct State {
    /// A pass is to begin.
    var isDue = false
    var isStopping = false
    /// The frames of the WAL when the pages were last counted. Only the writer's thread uses it.
    var countedAt = 0
  }

  /// Candidates read at once.
  private static let candidates = 256
  /// The pages are counted after this many new frames of the WAL: a megabyte.
  private static let countedFrames = (1 << 20) / WALLimits.pageBytes
  /// Between two checks for work that only time makes due (ns).
  private static let lookNanoseconds: UInt64 = 5_000_000_000
  /// Free pages are given back this long after a pass (ns): until then new rows use them again.
  private static let shrinkNanoseconds: UInt64 = 10_000_000_000
  /// Waits after a pass that failed, and after one that found nothing (ns).
  private static let retryNanoseconds: UInt64 = 5_000_000_000
  private static let fullNanoseconds: UInt64 = 30_000_000_000

  private let usage: CacheUsage
  private let readers: ReaderPool
  private let checkpointer: Checkpointer
  private let queue: CommitQueue
  private let log: CommitLog
  private let state = Watched(State())
  private let clock: Clock
  /// When channels were last read.
  let stamps = AccessStamps()
  private let isConnected = Atomic<Bool>(false)
  private let passing = Lock()
  private let thread = ThreadSlot()

  init(
    _ usage: CacheUsage, _ readers: ReaderPool, _ checkpointer: Checkpointer, _ queue: CommitQueue,
    _ log: CommitLog, clock: Clock
  ) {
    self.usage = usage
    self.checkpointer = checkpointer
    self.clock = clock
    self.readers = readers
    self.queue = queue
    self.log = log
  }

  func start() { thread.start("perch-evictor") { [self] in run() } }

  func stop() {
    state.update { $0.isStopping = true }
    thread.join()
  }

  /// Notes a client's request. The first one after a start makes a pass due; any other costs one atomic load.
  func connected() {
    guard !isConnected.load(ordering: .relaxed), !isConnected.exchange(true, ordering: .relaxed) else {
      return
    }
    state.update { $0.isDue = true }
  }

  /// Makes a pass due because the limit changed.
  func limitChanged() {
    if isConnected.load(ordering: .relaxed) { state.update { $0.isDue = true } }
  }

  /// The writer's thread calls this after a commit. Counts the pages now and then, and wakes the evictor if
  /// they are too many.
  func committed(_ writer: Connection) {
    let frames = writer.walFrames
    let mustCount = state.read { state in
      // A WAL that began anew is shorter.
      guard frames < state.countedAt || frames - state.countedAt >= Evictor.countedFrames else {
        return false
      }
      state.countedAt = frames
      return true
    }
    guard mustCount else { return }
    do { usage.measured(try writer.autocommit { try $0.reading.pageCount() }) } catch {
      // The pages are counted again after the next commits, which fail if the file cannot be read.
      return
    }
    if usage.usedBytes <= usage.limit.bytes {
      foundRoom()
    } else if !usage.isFull {
      state.update { $0.isDue = true }
    }
  }

  private func foundRoom() {
    guard usage.isFull else { return }
    usage.set(isFull: false)
    Log.line(.info, "cache_has_room")
  }

  private func run() {
    var notBefore: UInt64 = 0
    var shrinksAt: UInt64 = 0
    var isFailing = false
    while true {
      let deadline = Clock.system.monotonicNanoseconds() + Evictor.lookNanoseconds
      let isStopping = state.wait(until: deadline) { state -> Bool? in
        if state.isStopping { return true }
        return state.isDue && Clock.system.monotonicNanoseconds() >= notBefore ? false : nil
      }
      do {
        try storeStamps()
        if isStopping == true { return }
        // A full cache is checked again when its time has come.
        let now = Clock.system.monotonicNanoseconds()
        if now >= notBefore, takeDue() || usage.isFull || isFailing {
          try pass()
          notBefore = usage.isFull ? now + Evictor.fullNanoseconds : 0
          shrinksAt = now + Evictor.shrinkNanoseconds
        }
        if now >= shrinksAt {
          shrinksAt = now + Evictor.lookNanoseconds
          try shrink()
        }
        isFailing = false
      } catch {
        if isStopping == true { return }
        if !isFailing { Log.line(.warning, "eviction_failed", ["reason": .text("\(error)")]) }
        isFailing = true
        notBefore = Clock.system.monotonicNanoseconds() + Evictor.retryNanoseconds
      }
    }
  }

  private func takeDue() -> Bool {
    state.read { state in
      defer { state.isDue = false }
      return state.isDue
    }
  }

  /// Stores when channels were last read (B22).
  func storeStamps() throws {
    try stamps.store(through: queue, now: Int64(clock.monotonicNanoseconds() / 1_000_000))
  }

  /// If the limit is crossed or a pass was interrupted, evicts until there is enough room or nothing is left.
  func pass() throws {
    try passing.withLock {
      let isCutOff = try readers.read(log) { try $0.isEvicting() }
      try count()
      guard isCutOff || usage.usedBytes > usage.limit.bytes else { return foundRoom() }
      let messages = usage.evictedMessages
      try storeStamps()
      let isEnough = try evictEnough()
      guard !isStopping else { return }
      try queue.wait(.room) { try $0.endEvicting() }
      if usage.evictedMessages > messages { told(messages: usage.evictedMessages - messages) }
      try count()
      if isEnough || usage.usedBytes <= usage.limit.bytes { foundRoom() } else { foundNothing() }
    }
  }

  private var isStopping: Bool { state.read { $0.isStopping } }

  /// Evicts slice by slice. False: nothing is left to evict.
  private func evictEnough() throws -> Bool {
    var plan = EvictionPlan(usage.limit.order)
    var isFirst = true
    while usage.usedBytes > usage.limit.lowMark {
      if isStopping { return true }
      guard let slice = plan.next else {
        let (order, limit) = (usage.limit.order, Evictor.candidates + plan.exhaustedCount)
        let found = try readers.readAnew(log) { try $0.evictionCandidates(by: order, limit: limit) }
        guard plan.take(found) else { return false }
        continue
      }
      // A channel that was read meanwhile loses its turn.
      if stamps.isNoted(slice.channel) { try storeStamps() }
      let done = try evict(slice)
      plan.ended(done.slice.outcome, nanoseconds: done.nanoseconds)
      usage.evicted(done.slice)
      usage.sliceTimes.note(nanoseconds: done.nanoseconds)
      usage.measured(done.pages)
      if isFirst, done.slice.messages > 0 {
        usage.beganPass()
        isFirst = false
      }
    }
    return true
  }

  private struct Done: Sendable {
    let slice: EvictedSlice
    let pages: PageCount
    /// How long the writer was held.
    let nanoseconds: UInt64
  }

  private func evict(_ slice: EvictionSlice) throws -> Done {
    try queue.wait(.room) { writer in
      let began = Clock.system.monotonicNanoseconds()
      let evicted = try writer.evict(slice)
      let pages = try writer.db.reading.pageCount()
      return Done(
        slice: evicted, pages: pages, nanoseconds: Clock.system.monotonicNanoseconds() - began)
    }
  }

  /// Gives free pages back, slice by slice, and has the file cut. Between two slices the writer is left alone
  /// for as long as a slice took.
  func shrink() throws {
    try passing.withLock {
      var plan = VacuumPlan()
      var count = try readers.readAnew(log) { try $0.db.pageCount() }
      var isShorter = false
      while !isStopping {
        let pages = plan.next(count)
        guard pages > 0 else { break }
        let (after, nanoseconds) = try queue.wait(.derived) { writer in
          let began = Clock.system.monotonicNanoseconds()
          let after = try writer.giveBack(pages: pages)
          return (after, Clock.system.monotonicNanoseconds() - began)
        }
        usage.measured(after)
        // A file that was made without `auto_vacuum` keeps its free pages and reuses them.
        guard after.all < count.all else { break }
        (count, isShorter) = (after, true)
        plan.took(nanoseconds)
        Thread.rest(nanoseconds: nanoseconds)
      }
      if isShorter { checkpointer.shrink() }
    }
  }

  /// Counts the pages anew.
  func count() throws { usage.measured(try readers.readAnew(log) { try $0.db.pageCount() }) }

  private func told(messages: Int64) {
    Log.line(.info, "cache_evicted", ["messages": .number(messages), "used_bytes": .number(usage.usedBytes)])
  }

  private func foundNothing() {
    guard !usage.isFull else { return }
    usage.set(isFull: true)
    Log.line(
      .warning, "cache_full",
      [
        "used_bytes": .number(usage.usedBytes), "max_bytes": .number(usage.limit.bytes),
        "reason": "nothing more can be evicted: channels, members, events and unsent messages take this much",
      ])
  }
}
