import Platform
import Synchronization

/// The memory that request bodies share while no handler has looked at their requests: their senders have
/// shown no token yet.
///
/// A body takes room for the bytes that have come and gives it back when its handler was called, or when the
/// request is over. A body that finds no room leaves its bytes in the socket and waits in line.
package final class BodyRoom: Sendable {
  /// The most bytes that bodies may hold at once.
  let most: Int
  private let held = Atomic<Int>(0)
  /// The most bytes that were held since all were given back. Approximate, because two threads may store it
  /// at once.
  private let peak = Atomic<Int>(0)
  private static let muchMemory = 2 << 20
  private let hasLine = Atomic<Bool>(false)
  private let line = Guarded<[Waiter]>([])
  /// The bytes that a waiting body is expected to need; they decide how many bodies are woken.
  private static let usualBytes = 4096

  init(most: Int) { self.most = most }

  /// Bytes held now.
  package var bytes: Int { held.load(ordering: .relaxed) }

  /// Takes room for `count` bytes. False when there is not enough.
  func take(_ count: Int) -> Bool {
    var before = held.load(ordering: .sequentiallyConsistent)
    while before + count <= most {
      let (exchanged, original) = held.compareExchange(
        expected: before, desired: before + count, ordering: .sequentiallyConsistent)
      if exchanged {
        if before + count > peak.load(ordering: .relaxed) {
          peak.store(before + count, ordering: .relaxed)
        }
        return true
      }
      before = original
    }
    return count == 0
  }

  /// Whether bodies held much memory since the last such answer and have given all of it back. The allocator
  /// still keeps that memory.
  func hasEmptied() -> Bool {
    guard peak.load(ordering: .relaxed) >= BodyRoom.muchMemory, bytes == 0 else { return false }
    peak.store(0, ordering: .relaxed)
    return true
  }

  /// Puts a body in line. It must ask for room once more afterwards, because some may have become free in
  /// between.
  func wait(_ waiter: Waiter) {
    line.withLock { $0.append(waiter) }
    hasLine.store(true, ordering: .sequentiallyConsistent)
  }

  /// Takes a body out of the line.
  func leave(_ waiter: Waiter) {
    line.withLock { line in
      line.removeAll { $0 === waiter }
      if line.isEmpty { hasLine.store(false, ordering: .sequentiallyConsistent) }
    }
  }

  /// Gives room back and wakes as many waiting bodies as may find room; they ask again.
  func give(back count: Int) {
    let left = held.wrappingSubtract(count, ordering: .sequentiallyConsistent).newValue
    guard hasLine.load(ordering: .sequentiallyConsistent) else { return }
    let woken = line.withLock { line -> ArraySlice<Waiter> in
      let count = min(line.count, max(1, (most - left) / BodyRoom.usualBytes))
      defer { line.removeFirst(count) }
      return line[..<count]
    }
    Waiter.wakeAll(woken)
  }
}
