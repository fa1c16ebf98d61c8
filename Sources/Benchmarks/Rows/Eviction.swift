import ChatCache
import ChatModel
import Glibc
import Platform
import Synchronization

extension Row {
  /// P9, B55: a cache with a limit of 64 MB stores four times as much at full speed. Measured: how far it
  /// exceeds the limit, how long slices hold the writer, how fast sends and pages are meanwhile.
  static let eviction = Row(
    name: "eviction", work: "256 MB of messages stored at full speed into a cache of 64 MB"
  ) { bench in
    let run = try EvictionRun()
    try run.fill(upTo: 32 << 20)
    let idle = try run.pages(seconds: bench.seconds)
    try run.measure(bytes: 256 << 20)
    return run.figures(idle: idle)
  }
}

/// One cache that stores more than it may keep.
private final class EvictionRun: Sendable {
  private static let channels = 200
  private let filled: FilledCache
  private let stored = Guarded(0)
  private let isDone = Atomic<Bool>(false)
  private let reads = Guarded<(count: Int, nanoseconds: UInt64)>((0, 0))
  private let sends = Guarded<[UInt64]>([])
  private let most = Atomic<Int64>(0)
  private let ingest = Guarded(0.0)
  /// The first error of the reader or the sender.
  private let failure = Guarded<(any Error)?>(nil)

  init() throws {
    filled = try FilledCache(channels: EvictionRun.channels, disk: true, limit: 64 << 20)
    filled.cache.noteConnection()
  }

  /// Stores the next page of the next channel.
  private func storePage() throws {
    let page = stored.withLock { stored in
      defer { stored += 1 }
      return stored
    }
    let channel = page % EvictionRun.channels
    try filled.store(page / EvictionRun.channels * 100, count: 100, in: channel)
    most.max(filled.cache.usage.usedBytes, ordering: .relaxed)
  }

  func fill(upTo bytes: Int64) throws {
    while filled.cache.usage.usedBytes < bytes { try storePage() }
  }

  /// Pages a second, read from the channels that were stored last.
  func pages(seconds: Int) throws -> Double {
    let end = Clock.system.monotonicNanoseconds() + UInt64(seconds) * 1_000_000_000
    let rate = read { Clock.system.monotonicNanoseconds() < end }
    try checkFailure()
    return rate
  }

  /// Throws the first error of the reader and the sender: after one the figures would be wrong.
  private func checkFailure() throws { if let error = failure.withLock({ $0 }) { throw error } }

  private func read(while goesOn: () -> Bool) -> Double {
    let began = Clock.system.monotonicNanoseconds()
    var count = 0
    while goesOn() {
      let url = FilledCache.url(stored.withLock { max(0, $0 - 2) } % EvictionRun.channels)
      do {
        _ = try filled.page(MessagePageQuery(limit: 30), in: url)
        count += 1
      } catch { failure.withLock { $0 = $0 ?? error } }
    }
    return Double(count) / (Double(Clock.system.monotonicNanoseconds() - began) / 1e9)
  }

  /// Accepts a message, as a client sends it.
  private func send(_ number: Int) throws {
    let text = #""message":"message \(number)""#
    let request = UnsentRequest(
      requestID: RequestID("r-\(number)")!, kind: .message,
      content: OutboxContent(params: Array("{\(text)}".utf8), body: Array((text + #","type":"user""#).utf8)),
      contentHash: Array(text.utf8))
    let url = FilledCache.url(number % EvictionRun.channels)
    var policy = OutboxPolicy()
    policy.maximumUnsent = .max
    _ = try filled.cache.blocking.accept { [policy] in
      try $0.accept(request, of: FilledCache.user, in: url, policy)
    }
  }

  /// Stores `bytes` of messages while a reader and a sender run.
  func measure(bytes: Int) throws {
    let reader = Thread("bench-reader") { [self] in
      let began = Clock.system.monotonicNanoseconds()
      let rate = read { !isDone.load(ordering: .relaxed) }
      let nanoseconds = Clock.system.monotonicNanoseconds() - began
      reads.withLock { $0 = (Int(rate * Double(nanoseconds) / 1e9), nanoseconds) }
    }
    let sender = Thread("bench-sender") { [self] in
      while !isDone.load(ordering: .relaxed) {
        let began = Clock.system.monotonicNanoseconds()
        do {
          try send(sends.withLock { $0.count })
          sends.withLock { $0.append(Clock.system.monotonicNanoseconds() - began) }
        } catch { failure.withLock { $0 = $0 ?? error } }
        usleep(2_000)  // a sender of 500 a second at most
      }
    }
    do {
      defer {
        isDone.store(true, ordering: .relaxed)
        reader.join()
        sender.join()
      }
      let began = Clock.system.monotonicNanoseconds()
      let pages = bytes / 100 / 400
      for _ in 0..<pages { try storePage() }
      let seconds = Double(Clock.system.monotonicNanoseconds() - began) / 1e9
      ingest.withLock { $0 = Double(pages * 100) / seconds }
    }
    try checkFailure()
  }

  func figures(idle: Double) -> [Figure] {
    let usage = filled.cache.usage
    func alone(_ title: String, _ unit: String, _ value: Double, _ goal: Figure.Goal?) -> Figure {
      Figure(title: title, unit: unit, ours: value, peer: nil, peerName: "", goal: goal)
    }
    let over = Double(most.load(ordering: .relaxed) - usage.limit.bytes) / Double(1 << 20)
    let (count, nanoseconds) = reads.withLock { $0 }
    let beside = Double(count) / (Double(nanoseconds) / 1e9)
    let sorted = sends.withLock { $0.sorted() }
    let p99 = sorted.isEmpty ? .nan : Double(sorted[sorted.count * 99 / 100]) / 1e6
    let times = usage.sliceTimes
    let median = TimeCounts.bounds.indices.first { times.count(notLongerThan: $0) * 2 >= times.count }
    let medianBound = median.map { Double(TimeCounts.bounds[$0]) / 1000 } ?? .nan
    let commits = filled.cache.commitTimes
    let commit = Double(commits.microseconds) / Double(max(1, commits.count)) / 1000
    return [
      alone("over the limit, most", "MB", over, .atMost(16)),
      alone("used when it ended", "MB", Double(usage.usedBytes) / Double(1 << 20), nil),
      alone("a slice, longest of \(times.count)", "ms", Double(times.longest) / 1000, .atMost(20)),
      alone("a slice, the median is below", "ms", medianBound, .atMost(5)),
      alone("pages while it evicts, of those at rest", "", beside / idle, .atLeast(0.6)),
      alone("a send beside it, p99", "ms", p99, nil),
      alone("a commit, mean", "ms", commit, nil),
      alone("messages stored meanwhile", "/s", ingest.withLock { $0 }, nil),
    ]
  }
}
