import Glibc
import Platform

/// The destination of a request's body: nowhere, memory, or files.
enum BodyIntake {
  /// Read and thrown away.
  case discarded(Discarded)
  /// Kept in memory.
  case collected(Collected)
  /// Streamed to files.
  case multipart(Multipart)

  /// Bytes that go nowhere.
  final class Discarded {
    let limit: Int
    var count = 0
    init(limit: Int) { self.limit = limit }
  }

  /// Bytes in memory.
  final class Collected {
    let limit: Int
    // Grows with what arrives: what a client announces costs it nothing.
    private var buffer = ByteBuffer(capacity: 0)
    private(set) var count = 0

    init(limit: Int) { self.limit = limit }

    var bytes: UnsafeRawBufferPointer { buffer.bytes }

    func take(_ bytes: UnsafeRawBufferPointer) {
      count += bytes.count
      if count <= limit {
        buffer.append(bytes)
      } else if buffer.count > 0 {
        buffer = ByteBuffer(capacity: 0)
      }
    }
  }

  /// Bytes of the body that are in memory now.
  var heldBytes: Int {
    switch self {
    case .discarded: 0
    case .collected(let sink): sink.bytes.count
    case .multipart(let form): form.heldBytes
    }
  }

  /// How many of the next `count` bytes have to find room in memory.
  func wantedBytes(_ count: Int) -> Int {
    switch self {
    case .discarded: 0
    case .collected(let sink): sink.count + count <= sink.limit ? count : 0
    case .multipart(let form): form.count + count <= form.limit ? count : 0
    }
  }

  /// Takes the next bytes. False once so much came beyond the limit that the connection is better cut.
  func take(_ bytes: UnsafeRawBufferPointer, overrun: Int) -> Bool {
    switch self {
    case .discarded(let sink):
      sink.count += bytes.count
      return sink.count <= sink.limit + overrun
    case .collected(let sink):
      sink.take(bytes)
      return sink.count <= sink.limit + overrun
    case .multipart(let form):
      form.take(bytes)
      return form.count <= form.limit + overrun
    }
  }

  /// The problem to answer with when the whole body has arrived; nil where the body is good.
  var fault: Problem? {
    switch self {
    case .discarded(let sink): sink.count > sink.limit ? .tooLarge(limit: sink.limit) : nil
    case .collected(let sink): sink.count > sink.limit ? .tooLarge(limit: sink.limit) : nil
    case .multipart(let form): form.count > form.limit ? .tooLarge(limit: form.limit) : form.finish()
    }
  }
}
