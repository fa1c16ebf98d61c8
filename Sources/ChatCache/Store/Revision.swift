import Synchronization

/// Which state of the database readers see, as a number: even while it stands, odd while a COMMIT is under
/// way and some see the state before it, some the one after.
///
/// Whoever finds the same even number before and after reading saw that one state, in however many snapshots.
final class Revision: Sendable {
  private let number = Atomic<UInt64>(0)
  private let isRead = Atomic<Bool>(false)

  /// The number of the state that everybody sees; nil while it changes.
  var settled: UInt64? {
    let now = number.load(ordering: .sequentiallyConsistent)
    return now & 1 == 0 ? now : nil
  }

  /// Whether everything that was read up to here is of the state of that number, which was found before.
  func isStill(_ settled: UInt64) -> Bool {
    atomicMemoryFence(ordering: .acquiring)
    return number.load(ordering: .sequentiallyConsistent) == settled
  }

  /// A client reads the state.
  func noteRead() { if !isRead.load(ordering: .relaxed) { isRead.store(true, ordering: .relaxed) } }

  /// Whether a client has read since this was asked last.
  func wasRead() -> Bool { isRead.exchange(false, ordering: .relaxed) }

  /// What readers see is about to change. Only the writer's thread says so.
  func unsettle() { if settled != nil { number.wrappingAdd(1, ordering: .sequentiallyConsistent) } }

  /// It has changed, or it has not: what was read before counts no more.
  func settle() { if settled == nil { number.wrappingAdd(1, ordering: .sequentiallyConsistent) } }
}
