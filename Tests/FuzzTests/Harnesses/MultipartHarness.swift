import Glibc

@testable import MicroHTTP

/// A multipart body, whole and in pieces: both must have the same parts and leave no file behind.
///
/// The first byte is the length of the pieces, the boundary follows up to the first line feed, the rest is
/// the body.
enum MultipartHarness {
  private static let folder: String = {
    var path = Array("/tmp/perch-fuzz-XXXXXX".utf8CString)
    mkdtemp(&path)
    return path.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
  }()

  static func run(_ input: UnsafeRawBufferPointer) throws {
    guard input.count > 2, let line = input.firstIndex(of: 0x0A) else { return }
    let header = "multipart/form-data; boundary=" + String(decoding: input[1..<max(line, 1)], as: UTF8.self)
    let boundary = Array(header.utf8).withUnsafeBytes { Multipart.boundary(of: $0) }
    guard let boundary else { return }
    let body = UnsafeRawBufferPointer(rebasing: input[(line + 1)...])
    let whole = outcome(boundary, body, piece: body.count)
    let pieces = outcome(boundary, body, piece: Int(input[0]))
    try check(whole == pieces, "a body in pieces of \(input[0]) bytes reads otherwise: \(whole) \(pieces)")
  }

  /// The result of parsing the body, as text.
  private static func outcome(_ boundary: [UInt8], _ body: UnsafeRawBufferPointer, piece: Int) -> String {
    var limits = Limits()
    limits.multipartFieldBytes = 64
    limits.multipartHeaderBytes = 256
    limits.multipartParts = 4
    let form = Multipart(boundary: boundary, limit: 4096, limits: limits, into: TemporaryFiles(in: folder))
    var offset = 0
    while offset < body.count {
      let end = min(body.count, offset + max(piece, 1))
      form.take(UnsafeRawBufferPointer(rebasing: body[offset..<end]))
      offset = end
    }
    // Whether headers are too long may depend on later bytes.
    if let problem = form.finish() { return problem.code }
    return form.parts.map { part in
      let file = part.path.map { "\(size($0))" } ?? "-"
      return
        "\(part.name)|\(part.fileName ?? "-")|\(part.contentType ?? "-")|\(part.value)|\(file)|\(part.byteCount)"
    }.joined(separator: "\n")
  }

  private static func size(_ path: String) -> Int {
    var info = stat()
    return stat(path, &info) == 0 ? Int(info.st_size) : -1
  }
}
