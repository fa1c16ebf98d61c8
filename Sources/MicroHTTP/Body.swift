import Glibc
import Platform

/// Where a request's body goes while it arrives.
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

  /// What is wrong with the body now that it is whole.
  var fault: Problem? {
    switch self {
    case .discarded(let sink): sink.count > sink.limit ? .tooLarge(limit: sink.limit) : nil
    case .collected(let sink): sink.count > sink.limit ? .tooLarge(limit: sink.limit) : nil
    case .multipart(let form): form.count > form.limit ? .tooLarge(limit: form.limit) : form.finish()
    }
  }
}

extension Problem {
  static func tooLarge(limit: Int) -> Problem {
    Problem(413, "content_too_large", detail: "send at most \(limit) bytes")
  }
}

extension Request {
  /// Decides what happens to the body before any of it is read. Thrown problems are answered on the spot.
  func prepareBody() throws(Problem) {
    let limits = server.configuration.limits
    let hasBody = seen.hasBody
    switch endpoint?.route.body ?? .none {
    case .none:
      if hasBody { try expect(limits.ignoredBodyBytes, .discarded(.init(limit: limits.ignoredBodyBytes))) }
    case .collected(let limit, let types, let required):
      try collect(limit, types: types, required: required, hasBody: hasBody)
    case .multipart(let limit, let orCollected):
      if let boundary = Multipart.boundary(of: header("Content-Type")) {
        let form = Multipart(
          boundary: boundary, limit: limit, limits: limits, directory: server.configuration.uploadDirectory)
        try expect(limit, .multipart(form))
      } else if let orCollected {
        try collect(orCollected, types: ["application/json"], required: false, hasBody: hasBody)
      } else {
        throw Request.unsupportedType(["multipart/form-data"])
      }
    }
  }

  private func collect(_ limit: Int, types: [String], required: Bool, hasBody: Bool) throws(Problem) {
    if required, !seen.isChunked, seen.contentLength == nil {
      throw Problem(411, "length_required", detail: "send a body with Content-Length")
    }
    guard hasBody else { return }
    if !types.isEmpty, !hasMediaType(oneOf: types) { throw Request.unsupportedType(types) }
    try expect(limit, .collected(.init(limit: limit)))
  }

  private func expect(_ limit: Int, _ sink: BodyIntake) throws(Problem) {
    if let length = seen.contentLength, length > limit { throw Problem.tooLarge(limit: limit) }
    intake = PendingBody(sink)
  }

  private static func unsupportedType(_ types: [String]) -> Problem {
    let accepted = types.joined(separator: ", ")
    return Problem(
      415, "unsupported_media_type", detail: "send the body as \(accepted)", headers: [("Accept", accepted)])
  }

  /// Compares the media type without its parameters, in any case of its letters.
  private func hasMediaType(oneOf types: [String]) -> Bool {
    guard let given = header("Content-Type") else { return false }
    let end = given.firstIndex { $0 == UInt8(ascii: ";") || $0 == 0x20 || $0 == 0x09 } ?? given.count
    let name = given[..<end].map { $0 >= 0x41 && $0 <= 0x5A ? $0 + 0x20 : $0 }
    return types.contains { $0.utf8.elementsEqual(name) }
  }
}
