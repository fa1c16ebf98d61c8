import Glibc
import Platform

/// The destination of a request's body: nowhere, memory, or files.
enum BodyIntake {
  /// The body is read and thrown away.
  case discarded(Discarded)
  /// The body is kept in memory.
  case collected(Collected)
  /// The body's files are passed to a form intake as they arrive.
  case multipart(Multipart)

  /// Counts the bytes and throws them away.
  final class Discarded {
    let limit: Int
    var count = 0
    init(limit: Int) { self.limit = limit }
  }

  /// Keeps the bytes in memory.
  final class Collected {
    let limit: Int
    // Grows with the bytes that arrive: an announced length alone takes no memory.
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

  /// How many of the next `count` bytes need room in memory.
  func wantedBytes(_ count: Int) -> Int {
    switch self {
    case .discarded: 0
    case .collected(let sink): sink.count + count <= sink.limit ? count : 0
    case .multipart(let form): form.count + count <= form.limit ? count : 0
    }
  }

  /// Takes the next bytes. False: more than `overrun` bytes came beyond the limit, so the connection is cut.
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

  /// The problem to answer with when the whole body has arrived; nil: the body is valid.
  var fault: Problem? {
    switch self {
    case .discarded(let sink): sink.count > sink.limit ? .tooLarge(limit: sink.limit) : nil
    case .collected(let sink): sink.count > sink.limit ? .tooLarge(limit: sink.limit) : nil
    case .multipart(let form): form.count > form.limit ? .tooLarge(limit: form.limit) : form.finish()
    }
  }
}
