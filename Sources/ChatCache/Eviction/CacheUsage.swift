import Platform
import SQLite
import Synchronization

/// How much of its limit the cache uses, and what was evicted, for callers that may not read the database
/// (B55).
package final class CacheUsage: Sendable {
  /// Bytes of the pages in use.
  private let used = Atomic<Int64>(0)
  /// Bytes of the pages that are free.
  private let free = Atomic<Int64>(0)
  private let full = Atomic<Bool>(false)
  private let passCount = Atomic<Int64>(0)
  private let messageCount = Atomic<Int64>(0)
  private let byteCount = Atomic<Int64>(0)
  private let held: Guarded<CacheLimit>
  private let observers = Guarded<[@Sendable () -> Void]>([])
  private let roomy = Atomic<Bool>(true)

  init(_ limit: CacheLimit) { held = Guarded(limit) }

  /// The maximum size of the cache, and the order of eviction.
  package var limit: CacheLimit { held.withLock { $0 } }
  /// Bytes of the pages in use, counted after each megabyte of commits.
  package var usedBytes: Int64 { used.load(ordering: .relaxed) }
  /// Bytes of the file's pages that are free.
  package var freeBytes: Int64 { free.load(ordering: .relaxed) }
  /// Whether the cache is over its limit and has nothing left to evict.
  package var isFull: Bool { full.load(ordering: .relaxed) }
  /// Passes that evicted something.
  package var passes: Int64 { passCount.load(ordering: .relaxed) }
  /// Messages that were evicted since the start, and their bytes.
  package var evictedMessages: Int64 { messageCount.load(ordering: .relaxed) }
  /// See `evictedMessages`.
  package var evictedBytes: Int64 { byteCount.load(ordering: .relaxed) }
  /// How long slices held the writer, without the syncs of their commits.
  package let sliceTimes = TimeCounts()
  /// Whether there is room for prefetch: less is used than a pass leaves (B33).
  package var hasRoom: Bool { roomy.load(ordering: .relaxed) }

  /// Calls `observer` when `hasRoom` changed.
  package func onRoom(_ observer: @escaping @Sendable () -> Void) {
    observers.withLock { $0.append(observer) }
  }

  func set(_ limit: CacheLimit) {
    held.withLock { $0 = limit }
    judgeRoom()
  }

  /// Notes a new count of the file's pages.
  func measured(_ pages: PageCount) {
    used.store(pages.usedBytes, ordering: .relaxed)
    free.store(pages.freeBytes, ordering: .relaxed)
    judgeRoom()
  }

  func set(isFull: Bool) { full.store(isFull, ordering: .relaxed) }

  func evicted(_ slice: EvictedSlice) {
    messageCount.wrappingAdd(slice.messages, ordering: .relaxed)
    byteCount.wrappingAdd(slice.bytes, ordering: .relaxed)
  }

  func beganPass() { passCount.wrappingAdd(1, ordering: .relaxed) }

  private func judgeRoom() {
    let hasRoom = usedBytes < limit.lowMark
    guard roomy.exchange(hasRoom, ordering: .relaxed) != hasRoom else { return }
    for observer in observers.withLock({ $0 }) { observer() }
  }
}

extension CacheLimit {
  /// A pass evicts until no more than this is used: 85 % of the limit (B55).
  package var lowMark: Int64 { bytes / 100 * 85 + bytes % 100 * 85 / 100 }
}

/// The pages of a database file.
struct PageCount: Sendable, Equatable {
  /// All pages, the free ones, and the bytes of one page.
  let all: Int64
  let free: Int64
  let size: Int64

  /// Bytes of the pages in use.
  var usedBytes: Int64 { (all - free) * size }
  /// Bytes of the free pages.
  var freeBytes: Int64 { free * size }
}

extension ReadAccess {
  /// The file's pages, as this snapshot or transaction has them.
  func pageCount() throws -> PageCount {
    PageCount(
      all: try first("PRAGMA page_count") { $0.int64(0) } ?? 0,
      free: try first("PRAGMA freelist_count") { $0.int64(0) } ?? 0,
      size: try first("PRAGMA page_size") { $0.int64(0) } ?? 0)
  }
}
