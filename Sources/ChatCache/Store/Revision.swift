import Synchronization

/// A number for the committed state that readers see. It is even between commits, and odd while a COMMIT is
/// under way, when some readers see the state before it and some the state after.
///
/// A reader that finds the same even number before and after its reads has seen one state, in however many
/// snapshots.
final class Revision: Sendable {
  private let number = Atomic<UInt64>(0)
  private let isRead = Atomic<Bool>(false)

  /// The number, if it is even: all readers see the same state. Nil during a COMMIT.
  var settled: UInt64? {
    let now = number.load(ordering: .sequentiallyConsistent)
    return now & 1 == 0 ? now : nil
  }

  /// Whether the number is still `settled`: then everything read since `settled` was taken is of one state.
  func isStill(_ settled: UInt64) -> Bool {
    atomicMemoryFence(ordering: .acquiring)
    return number.load(ordering: .sequentiallyConsistent) == settled
  }

  /// Notes that a client has read.
  func noteRead() { if !isRead.load(ordering: .relaxed) { isRead.store(true, ordering: .relaxed) } }

  /// Whether a client has read since the last call.
  func wasRead() -> Bool { isRead.exchange(false, ordering: .relaxed) }

  /// Makes the number odd: a COMMIT begins. Called by the writer's thread alone.
  func unsettle() { if settled != nil { number.wrappingAdd(1, ordering: .sequentiallyConsistent) } }

  /// Makes the number even again: the COMMIT has ended, successfully or not. Values of the number before are
  /// stale.
  func settle() { if settled == nil { number.wrappingAdd(1, ordering: .sequentiallyConsistent) } }
}
