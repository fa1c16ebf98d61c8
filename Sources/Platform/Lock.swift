import Glibc

/// A pthread mutex at a stable address.
///
/// `Synchronization.Mutex` would be smaller, but the thread sanitizer of this toolchain misreports it.
public final class Lock: @unchecked Sendable {  // because a pthread mutex is thread safe and never moves
  @usableFromInline let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

  /// An unlocked mutex.
  package init() {
    mutex.initialize(to: pthread_mutex_t())
    pthread_mutex_init(mutex, nil)
  }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deinitialize(count: 1)
    mutex.deallocate()
  }

  /// Runs `body` while no other thread holds the lock. Not reentrant.
  @inlinable
  public func withLock<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure)
    -> Result
  {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return try body()
  }
}

/// A value that can only be reached under its lock.
public final class Guarded<Value>: @unchecked Sendable {  // because `value` is only touched under `lock`
  @usableFromInline let lock = Lock()
  @usableFromInline var value: Value

  /// Guards `value` from now on.
  package init(_ value: sending Value) { self.value = value }

  /// Lends the value for the length of `body`.
  @inlinable
  public func withLock<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try lock.withLock { () throws(Failure) -> Result in try body(&value) }
  }
}

/// A value behind a lock that threads can wait on until it changes.
package final class Watched<Value>: @unchecked Sendable {  // because `value` is only touched under `lock`
  @usableFromInline let lock = Lock()
  @usableFromInline let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
  @usableFromInline var value: Value

  /// Guards `value` from now on; waits are measured on the monotonic clock.
  package init(_ value: sending Value) {
    self.value = value
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
  }

  /// Lends the value and then wakes every waiting thread.
  @inlinable
  package func update<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try lock.withLock { () throws(Failure) -> Result in
      defer { pthread_cond_broadcast(condition) }
      return try body(&value)
    }
  }

  /// Lends the value without waking anybody.
  @inlinable
  package func read<Result>(_ body: (inout Value) -> Result) -> Result {
    lock.withLock { body(&value) }
  }

  /// Waits until `body` returns a value or `deadline` (monotonic nanoseconds, nil = no end) has passed.
  @inlinable
  package func wait<Result>(until deadline: UInt64? = nil, _ body: (inout Value) -> Result?) -> Result? {
    lock.withLock {
      while true {
        if let result = body(&value) { return result }
        guard let deadline else {
          pthread_cond_wait(condition, lock.mutex)
          continue
        }
        var time = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
        if pthread_cond_timedwait(condition, lock.mutex, &time) == ETIMEDOUT { return body(&value) }
      }
    }
  }
}
