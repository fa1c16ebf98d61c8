import Glibc
import Synchronization

/// A thread of its own with a name, for the few loops that live as long as the process.
package final class Thread: @unchecked Sendable {  // because `handle` is written before the thread is shared
  private var handle = pthread_t()
  private let isJoined = Atomic<Bool>(false)

  private final class Start {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }

  /// Starts a thread that runs `body` and ends. `name` is cut to the 15 bytes that Linux shows.
  package init(_ name: String, _ body: @escaping @Sendable () -> Void) {
    let named: @Sendable () -> Void = {
      Thread.nameCurrent(name)
      body()
    }
    let start = Unmanaged.passRetained(Start(named)).toOpaque()
    let code = pthread_create(&handle, nil, threadEntry, start)
    precondition(code == 0, "a thread could not be started: \(String(cString: strerror(code)))")
  }

  fileprivate static func run(_ pointer: UnsafeMutableRawPointer) {
    Unmanaged<Start>.fromOpaque(pointer).takeRetainedValue().body()
  }

  /// Names the running thread for `top` and `gdb`. Failing is harmless: the name is only for people.
  private static func nameCurrent(_ name: String) {
    let comm = open("/proc/thread-self/comm", O_WRONLY)
    guard comm >= 0 else { return }
    defer { close(comm) }
    _ = name.utf8.prefix(15).withContiguousStorageIfAvailable { write(comm, $0.baseAddress, $0.count) }
  }

  /// A small number that no other thread of this process has, counted from 0 as threads first ask.
  package static var currentNumber: Int {
    let kept = Int(bitPattern: pthread_getspecific(numberKey))
    if kept > 0 { return kept - 1 }
    let number = lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
    pthread_setspecific(numberKey, UnsafeRawPointer(bitPattern: number))
    return number - 1
  }

  private static let lastNumber = Atomic<Int>(0)
  private static let numberKey: pthread_key_t = {
    var key = pthread_key_t()
    let code = pthread_key_create(&key, nil)
    precondition(code == 0, "there are no thread keys left")
    return key
  }()

  /// Suspends the running thread for about `nanoseconds`. Callers say in a comment why.
  package static func rest(nanoseconds: UInt64) {
    var rest = timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
    nanosleep(&rest, nil)  // because the caller asks for it
  }

  /// Waits for the thread's end. At most once.
  package func join() {
    isJoined.store(true, ordering: .relaxed)
    pthread_join(handle, nil)
  }

  /// A thread that was not joined frees its resources itself, at its end.
  deinit { if !isJoined.load(ordering: .relaxed) { pthread_detach(handle) } }
}

/// Holds one thread for the object that starts it and ends it.
package final class ThreadSlot: Sendable {
  private let running = Guarded<Thread?>(nil)

  /// Without a thread.
  package init() {}

  /// Starts a thread in the slot. The thread that was in it before must have ended, or be about to.
  package func start(_ name: String, _ body: @escaping @Sendable () -> Void) {
    running.withLock { running in
      running?.join()
      running = Thread(name, body)
    }
  }

  /// Waits for the end of the thread in the slot, if there is one.
  package func join() {
    let ending = running.withLock { running in
      defer { running = nil }
      return running
    }
    ending?.join()
  }
}

private let threadEntry: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = {
  Thread.run($0!)
  return nil
}
