import CMicroHTTPD
import Glibc
import Platform

/// `multipart/form-data` (RFC 7578), streamed: the body is cut at `CRLF--boundary`, each part's headers are
/// read, files are given to the intake as they come and plain fields kept in memory.
///
/// The boundary is searched in a window that keeps back as many bytes as a boundary has, so that a boundary
/// split between two packets is found. After a fault the rest is skipped, and the fault is reported at the
/// end.
final class Multipart {
  private enum State { case preamble, headers, content, epilogue }

  let limit: Int
  private(set) var count = 0
  private(set) var parts: [MultipartPart] = []
  private let limits: Limits
  let files: any FormIntake
  private let delimiter: [UInt8]
  private var window = ByteBuffer(capacity: 8192)
  private var state = State.preamble
  private var fault: Problem?
  private var isStarted = false

  private var part = PartHead(name: "", fileName: nil, contentType: nil)
  private var field: [UInt8] = []
  private var isFile = false
  private var partBytes = 0
  /// Bytes of all plain fields so far.
  private var fieldBytes = 0

  init(boundary: [UInt8], limit: Int, limits: Limits, into files: any FormIntake) {
    delimiter = Array("\r\n--".utf8) + boundary
    self.limit = limit
    self.limits = limits
    self.files = files
    // The first boundary has no line end before it. With this one it is found like the others.
    window.append("\r\n")
  }

  /// Whether a content type says that the body is a form.
  static func isForm(_ header: UnsafeRawBufferPointer?) -> Bool {
    guard let header else { return false }
    return String(decoding: header, as: UTF8.self).lowercased().hasPrefix("multipart/form-data")
  }

  /// The boundary of a multipart/form-data content type.
  static func boundary(of header: UnsafeRawBufferPointer?) -> [UInt8]? {
    guard let header, isForm(header) else { return nil }
    let type = String(decoding: header, as: UTF8.self)
    guard let boundary = HeaderParameters.value("boundary", in: type), (1...70).contains(boundary.utf8.count)
    else { return nil }
    return Array(boundary.utf8)
  }

  func take(_ bytes: UnsafeRawBufferPointer) {
    count += bytes.count
    guard fault == nil, count <= limit else { return }
    window.append(bytes)
    do throws(Problem) {
      while try step() {}
    } catch {
      fault = error
    }
  }

  /// The bytes in memory: unparsed ones, and the plain fields.
  var heldBytes: Int { window.count + fieldBytes }

  /// Called when the body is whole. Returns its fault, if there is one.
  func finish() -> Problem? {
    if let fault { return fault }
    return state == .epilogue ? nil : .multipart("the last boundary is missing")
  }

  /// Parses one piece of the window. False: more bytes are needed.
  private func step() throws(Problem) -> Bool {
    switch state {
    case .preamble, .content: try stepContent()
    case .headers: try stepHeaders()
    case .epilogue: drop(window.count)
    }
  }

  private func drop(_ length: Int) -> Bool {
    let rest = window.count - length
    memmove(window.base, window.base + length, rest)
    window.truncate(to: rest)
    return false
  }

  private func stepContent() throws(Problem) -> Bool {
    guard let found = find(delimiter) else {
      let safe = window.count - delimiter.count
      if safe > 0 {
        try write(safe)
        _ = drop(safe)
      }
      return false
    }
    try write(found)
    _ = drop(found)
    // The two bytes after the boundary tell whether another part follows.
    guard window.count >= delimiter.count + 2 else { return false }
    if state == .content { try endPart() }
    let first = window.bytes[delimiter.count]
    let second = window.bytes[delimiter.count + 1]
    _ = drop(delimiter.count + 2)
    switch (first, second) {
    case (0x2D, 0x2D): state = .epilogue
    case (0x0D, 0x0A): state = .headers
    default: throw .multipart("a boundary is followed by neither a line end nor two hyphens")
    }
    return true
  }

  private func stepHeaders() throws(Problem) -> Bool {
    guard let end = find([0x0D, 0x0A, 0x0D, 0x0A]) else {
      // The four bytes that end the headers may not have arrived yet.
      if window.count >= limits.multipartHeaderBytes + 4 { throw .multipart("a part's headers are too long") }
      return false
    }
    if end > limits.multipartHeaderBytes { throw .multipart("a part's headers are too long") }
    let head = String(decoding: UnsafeRawBufferPointer(rebasing: window.bytes[..<end]), as: UTF8.self)
    _ = drop(end + 4)
    try startPart(head)
    state = .content
    return true
  }

  private func find(_ needle: [UInt8]) -> Int? {
    guard let found = memmem(window.base, window.count, needle, needle.count) else { return nil }
    return found - window.base
  }

  // MARK: - Parts

  private func startPart(_ head: String) throws(Problem) {
    if parts.count >= limits.multipartParts {
      throw .multipart("send at most \(limits.multipartParts) parts")
    }
    var (name, fileName, contentType) = ("", String?.none, String?.none)
    field = []
    partBytes = 0
    for line in head.split(separator: "\r\n") {
      let header = line.prefix { $0 != ":" }.lowercased()
      let value = String(line.dropFirst(header.utf8.count + 1).drop { $0 == " " })
      if header == "content-type" { contentType = value }
      guard header == "content-disposition" else { continue }
      name = HeaderParameters.value("name", in: value) ?? ""
      fileName = HeaderParameters.value("filename", in: value)
    }
    if name.isEmpty { throw .multipart("each part needs a Content-Disposition with a name") }
    part = PartHead(name: name, fileName: fileName, contentType: contentType)
    isFile = try files.begin(part)
  }

  private func write(_ length: Int) throws(Problem) {
    guard state == .content, length > 0 else { return }
    partBytes += length
    let bytes = UnsafeRawBufferPointer(rebasing: window.bytes[..<length])
    if isFile { return try files.write(bytes) }
    if partBytes > limits.multipartFieldBytes {
      throw .fieldTooLong(part.name, limit: limits.multipartFieldBytes)
    }
    field.append(contentsOf: bytes)
    fieldBytes += length
  }

  private func endPart() throws(Problem) {
    let path = isFile ? try files.end() : nil
    isFile = false
    parts.append(
      MultipartPart(
        name: part.name, fileName: part.fileName, contentType: part.contentType, value: field, path: path,
        byteCount: partBytes))
    field = []
  }
}
