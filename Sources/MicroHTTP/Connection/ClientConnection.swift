import Glibc
import Synchronization

/// One connection for as long as its socket is open: its slot in the deadline wheel, the waiter that is
/// parked on it, and the object that handlers attached to it.
final class ClientConnection: @unchecked Sendable {  // because each field names its lock or thread
  let socket: Int32
  let generation: UInt32
  /// The `Daemon` that has the connection. The server reads this field, and the lot that resumes it.
  unowned(unsafe) let owner: AnyObject  // it lives until its last connection was closed
  /// An object that a handler attached; touched by the connection's worker thread alone.
  var attachment: AnyObject?
  /// The request that the server is reading or answering on this connection, as a retained pointer. Only the
  /// server uses it, on the connection's worker thread.
  var requestPointer: UnsafeMutableRawPointer?
  /// Bytes of the answer's body; touched by the connection's worker thread alone.
  var sentBytes = 0

  /// Whether the client's next bytes must begin a request; touched by the connection's worker thread alone.
  var awaitsRequest = true
  /// When the connection last began to wait for a request (monotonic nanoseconds); touched by its worker
  /// thread alone.
  var idleSince: UInt64
  /// Whether the connection is closed while bytes of the client are unread; touched by its worker thread
  /// alone.
  var isRefused = false

  /// The tick at which the connection is closed for taking too long; `noDeadline`: never. Workers store it
  /// without the lock.
  let deadline = Atomic<UInt32>(ClientConnection.noDeadline)
  /// The tick at which the wheel next checks this connection: never later than `deadline`, often earlier.
  let visit = Atomic<UInt32>(0)
  static let noDeadline = UInt32.max

  /// The connection's present activity, for the metrics; stored by its worker thread.
  enum Activity: UInt8, AtomicRepresentable {
    /// The connection waits for a request.
    case idle
    /// A request is being read.
    case reading
    /// A request is being answered, or is parked.
    case answering
    /// An event stream is being sent.
    case streaming
  }
  let activity = Atomic<Activity>(.idle)

  /// Whether the connection waits for bytes of the client, rather than the client for an answer.
  let isReading = Atomic<Bool>(true)

  /// Whether the client has closed its sending side. Bytes that it sent before may still be unread.
  let isLeft = Atomic<Bool>(false)

  /// Whether `ConnectionMemory.fill` was called for the connection; touched by its worker thread alone.
  var isFilled = false
  /// Whether `HangUpWatch` knows the socket. Under the lot's lock.
  var isWatched = false
  /// Whether `HangUpWatch` will tell when the client leaves. Under the lot's lock.
  var isArmed = false

  // The neighbours in a slot of the parking lot's wheel, and the parked request. Under the lot's lock.
  unowned(unsafe) var next: ClientConnection?
  unowned(unsafe) var previous: ClientConnection?
  unowned(unsafe) var parked: Waiter?  // its request keeps it until it is resumed

  init(socket: Int32, generation: UInt32, owner: AnyObject, at now: UInt64) {
    idleSince = now
    self.socket = socket
    self.generation = generation
    self.owner = owner
  }
}
