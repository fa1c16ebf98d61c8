import Glibc

/// A lock that guards no value of its own, so that for example only one thread at a time writes a file.
package typealias Lock = Guarded<Void>

extension Guarded<Void> {
  /// An unlocked lock.
  package convenience init() { self.init(()) }

  /// Runs `body` while no other thread holds the lock. Not reentrant.
  package func withLock<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure)
    -> Result
  {
    try withLock { (_: inout Void) throws(Failure) -> Result in try body() }
  }
}

/// A pthread mutex and the value that it guards, side by side in one block of memory, so that to take the
/// lock also brings the beginning of the value into the processor's caches.
///
/// `Synchronization.Mutex` would be smaller, but the thread sanitizer of this toolchain misreports it.
@usableFromInline
struct LockedValue<Value> {
  @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
  @usableFromInline let value: UnsafeMutablePointer<Value>

  init(_ value: consuming sending Value) {
    let alignment = max(MemoryLayout<pthread_mutex_t>.alignment, MemoryLayout<Value>.alignment)
    let offset = (MemoryLayout<pthread_mutex_t>.size + alignment - 1) / alignment * alignment
    let block = UnsafeMutableRawPointer.allocate(
      byteCount: offset + MemoryLayout<Value>.size, alignment: alignment)
    mutex = block.initializeMemory(as: pthread_mutex_t.self, to: pthread_mutex_t())
    pthread_mutex_init(mutex, nil)
    self.value = (block + offset).initializeMemory(as: Value.self, to: value)
  }

  /// Frees the memory. Nobody holds the lock, and nobody takes it any more.
  func free() {
    value.deinitialize(count: 1)
    pthread_mutex_destroy(mutex)
    UnsafeMutableRawPointer(mutex).deallocate()
  }

  @inlinable
  func withLock<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return try body(&value.pointee)
  }
}

/// A value that can only be reached under its lock.
public final class Guarded<Value>: @unchecked Sendable {  // because the value is only touched under its lock
  @usableFromInline let locked: LockedValue<Value>

  /// Guards `value` from now on.
  package init(_ value: consuming sending Value) { locked = LockedValue(value) }

  deinit { locked.free() }

  /// Lends the value for the length of `body`.
  @inlinable
  public func withLock<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    defer { extendLifetime(self) }
    return try locked.withLock(body)
  }
}

/// A value behind a lock that threads can wait on until it changes.
package final class Watched<Value>: @unchecked Sendable {  // because the value is only touched under its lock
  @usableFromInline let locked: LockedValue<Value>
  @usableFromInline let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  /// Guards `value` from now on; waits are measured on the monotonic clock.
  package init(_ value: consuming sending Value) {
    locked = LockedValue(value)
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    condition.initialize(to: pthread_cond_t())
    pthread_cond_init(condition, &attributes)
    pthread_condattr_destroy(&attributes)
  }

  deinit {
    pthread_cond_destroy(condition)
    condition.deinitialize(count: 1)
    condition.deallocate()
    locked.free()
  }

  /// Lends the value and then wakes every waiting thread.
  @inlinable
  package func update<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    defer { extendLifetime(self) }
    return try locked.withLock { value throws(Failure) -> Result in
      defer { pthread_cond_broadcast(condition) }
      return try body(&value)
    }
  }

  /// Lends the value without waking anybody.
  @inlinable
  package func read<Result>(_ body: (inout Value) -> Result) -> Result {
    defer { extendLifetime(self) }
    return locked.withLock(body)
  }

  /// Waits until `body` returns a value or `deadline` (monotonic nanoseconds, nil = no end) has passed.
  @inlinable
  package func wait<Result>(until deadline: UInt64? = nil, _ body: (inout Value) -> Result?) -> Result? {
    pthread_mutex_lock(locked.mutex)
    defer {
      pthread_mutex_unlock(locked.mutex)
      extendLifetime(self)
    }
    // Each turn lends the value anew: while this thread waits, others change it.
    while true {
      if let result = body(&locked.value.pointee) { return result }
      guard let deadline else {
        pthread_cond_wait(condition, locked.mutex)
        continue
      }
      var time = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
      if pthread_cond_timedwait(condition, locked.mutex, &time) == ETIMEDOUT {
        return body(&locked.value.pointee)
      }
    }
  }
}
