import Glibc
import Synchronization

/// A small number for each thread that answers requests.
enum WorkerNumber {
  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    pthread_key_create(&key, nil)
    return key
  }()
  private static let next = Atomic<Int>(1)

  static var current: Int {
    if let known = pthread_getspecific(key) { return Int(bitPattern: known) - 1 }
    let number = next.wrappingAdd(1, ordering: .relaxed).oldValue
    pthread_setspecific(key, UnsafeRawPointer(bitPattern: number))
    return number - 1
  }
}
