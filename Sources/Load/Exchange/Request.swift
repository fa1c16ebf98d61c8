/// A request of a load.
struct Request {
  var method = "GET"
  let path: String
  /// Header lines without their ends.
  var headers: [String] = []
  /// JSON text; nil: no body.
  var body: String?

  /// The bytes on the wire.
  func bytes(for host: Host) -> [UInt8] {
    var text = "\(method) \(path) HTTP/1.1\r\nHost: \(host.name)\r\n"
    for line in headers { text += line + "\r\n" }
    if let body {
      text += "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    } else {
      text += method == "GET" ? "\r\n" : "Content-Length: 0\r\n\r\n"
    }
    return Array(text.utf8)
  }
}
