import CMicroHTTPD
import Glibc

extension Response {
  /// The file at `path` (200), or the one range of it that the request asks for (206 or 416; RFC 9110, 14).
  ///
  /// The bytes go from the file to the socket. Several ranges at once are answered with the whole file.
  /// `etag` is a strong tag in its quotes; an `If-Range` that is not equal to it asks for the whole file.
  package static func file(
    _ path: String, type: String, etag: String? = nil, for request: Request
  ) throws -> Response {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    var info = stat()
    guard file >= 0, fstat(file, &info) == 0, info.st_mode & S_IFMT == S_IFREG else {
      if file >= 0 { close(file) }
      throw Problem(404, "file_not_found", detail: "there is no such file here any more")
    }
    let size = Int(info.st_size)
    var range = request.header("Range").flatMap { ByteRange($0, size: size) }
    if let condition = request.headerText("If-Range"), condition != etag { range = nil }
    if range == .unsatisfiable {
      close(file)
      throw Problem(
        416, "range_not_satisfiable", detail: "the file has \(size) bytes",
        headers: [("Content-Range", "bytes */\(size)")])
    }
    let (first, count) = range.map { ($0.first, $0.count) } ?? (0, size)
    guard let handle = MHD_create_response_from_fd_at_offset64(UInt64(count), file, UInt64(first)) else {
      close(file)
      preconditionFailure("out of memory")
    }
    let status = range == nil ? 200 : 206
    var response = Response(status: status, handle: handle, byteCount: count, content: .file)
    response.add("Content-Type", type)
    response.add("Accept-Ranges", "bytes")
    if let etag { response.add("ETag", etag) }
    if range != nil { response.add("Content-Range", "bytes \(first)-\(first + count - 1)/\(size)") }
    return response
  }
}
