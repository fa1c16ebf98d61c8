import Glibc
import Platform
import Synchronization

/// The descriptor of a file that comes in. Threads of the spool sync it while a worker thread still writes.
///
/// It is closed when the last thread releases it.
final class SpoolDescriptor: Sendable {
  /// The system's number for it.
  let number: Int32
  /// The first error of a sync. The lock is held through each sync.
  private let failure = Guarded<Int32?>(nil)
  private let isSyncingEarly = Atomic<Bool>(false)

  /// Takes over an open descriptor.
  init(_ number: Int32) { self.number = number }

  deinit { close(number) }

  /// Syncs the written bytes to the disk. After a failure every call throws the same error: the kernel
  /// reports a disk error to one `fsync` only, perhaps an early one, but the bytes stay lost.
  func sync() throws(SpoolError) {
    try failure.withLock { failure throws(SpoolError) in
      if failure == nil, fsync(number) != 0 { failure = errno }
      if let failure { throw .disk(failure) }
    }
  }

  /// Begins a sync before the file is complete. False: another one is under way.
  func beginEarlySync() -> Bool { !isSyncingEarly.exchange(true, ordering: .relaxed) }

  /// Ends an early sync that was made or refused.
  func endEarlySync() { isSyncingEarly.store(false, ordering: .relaxed) }
}
