import Glibc

/// A server under measurement: ours or a peer.
final class TestedServer {
  let name: String
  let port: Int
  let child: Child

  /// Starts it and waits until it accepts connections.
  init(_ name: String, _ words: [String], port: Int) throws {
    self.name = name
    self.port = port
    child = try Child(words)
    for _ in 0..<3000 {
      if TestedServer.accepts(port) { return }
      usleep(20_000)  // it has no other way to say that it is up
    }
    throw BenchFailure(description: "\(name) does not listen on port \(port)")
  }

  private static func accepts(_ port: Int) -> Bool {
    let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(socket) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
    return withUnsafeBytes(of: &address) {
      connect(socket, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count)) == 0
    }
  }

  /// One run of wrk: requests per second, and the server's µs for each.
  func load(_ path: String, headers: [String] = [], seconds: Int) throws -> (rate: Double, cost: Double) {
    let before = child.processorMicroseconds
    let words =
      ["wrk", "-t1", "-c32", "-d\(seconds)s"] + headers.flatMap { ["-H", $0] }
      + ["http://127.0.0.1:\(port)\(path)"]
    let text = try Child.output(words)
    let used = child.processorMicroseconds - before
    var rate: Double?
    var count: Double?
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: " ")
      if line.contains("Requests/sec:") { rate = parts.last.flatMap { Double($0) } }
      if line.contains(" requests in ") { count = parts.first.flatMap { Double($0) } }
      if line.contains("Non-2xx") || line.contains("Socket errors") {
        throw BenchFailure(description: "\(name)\(path): \(line)")
      }
    }
    guard let rate, let count, count > 0 else { throw BenchFailure(description: "wrk said: \(text)") }
    return (rate, used / count)
  }

  /// One run of parkbench: parks, publishes `rounds` times; its lines.
  func park(_ count: Int, rounds: Int, with program: String) throws -> [String] {
    let family = child.family.map { "\($0)" }.joined(separator: ",")
    let text = try Child.output([
      program, "-p", "\(port)", "-n", "\(count)", "-r", "\(rounds)", "-S", "700", "-a", "8", "-i", family,
    ])
    return text.split(separator: "\n").map(String.init)
  }
}

/// Reads one number out of a line of flat JSON.
func number(_ name: String, in line: String) -> Double? {
  let pieces = line.split { "{},:\"".contains($0) }
  guard let place = pieces.firstIndex(of: Substring(name)), place + 1 < pieces.count else { return nil }
  return Double(pieces[place + 1])
}
