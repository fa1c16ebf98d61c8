import Glibc

/// A server under measurement: ours or a peer.
final class TestedServer {
  let name: String
  let port: Int
  let child: Child

  /// Starts it and waits until it accepts connections.
  init(_ name: String, _ words: [String], port: Int, withinSeconds seconds: Int = 60) throws {
    self.name = name
    self.port = port
    child = try Child(words)
    for _ in 0..<(seconds * 50) {
      if TestedServer.accepts(port) { return }
      usleep(20_000)  // a server shows in no other way that it is up
    }
    throw BenchFailure(description: "\(name) does not listen on port \(port)")
  }

  /// Takes a server that runs already.
  init(_ name: String, _ child: Child, port: Int) {
    self.name = name
    self.port = port
    self.child = child
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

  /// The requests that wrk sends.
  struct Load {
    let path: String
    let headers: [String]
    /// Requests that are sent one after the other instead of `path`.
    var turns: RequestTurns?

    init(_ path: String, headers: [String] = []) {
      self.path = path
      self.headers = headers
    }

    init(_ turns: RequestTurns) {
      self.init("/")
      self.turns = turns
    }
  }

  /// One run of wrk: requests per second, and the server's µs for each.
  func run(_ load: Load, seconds: Int) throws -> (rate: Double, cost: Double) {
    let before = child.processorMicroseconds
    let script = load.turns.map { ["-s", $0.script] } ?? []
    let words =
      ["wrk", "-t1", "-c32", "-d\(seconds)s"] + load.headers.flatMap { ["-H", $0] } + script
      + ["http://127.0.0.1:\(port)\(load.path)"]
    let text = try Child.output(words)
    let used = child.processorMicroseconds - before
    var rate: Double?
    var count: Double?
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: " ")
      if line.contains("Requests/sec:") { rate = parts.last.flatMap { Double($0) } }
      if line.contains(" requests in ") { count = parts.first.flatMap { Double($0) } }
      if line.contains("Non-2xx") || line.contains("Socket errors") {
        throw BenchFailure(description: "\(name)\(load.path): \(line)")
      }
    }
    guard let rate, let count, count > 0 else { throw BenchFailure(description: "wrk said: \(text)") }
    return (rate, used / count)
  }

  /// One run of parkbench, which parks `count` polls and publishes a body of `bytes` `rounds` times. Returns
  /// its lines.
  func park(_ count: Int, rounds: Int, bytes: Int = 500, with program: String) throws -> [String] {
    let family = child.family.map { "\($0)" }.joined(separator: ",")
    let text = try Child.output([
      program, "-p", "\(port)", "-n", "\(count)", "-r", "\(rounds)", "-S", "700", "-a", "8", "-b", "\(bytes)",
      "-i", family,
    ])
    return text.split(separator: "\n").map(String.init)
  }
}

/// Requests that wrk sends in turns. They are in a Lua script that prepares them, so that sending costs wrk
/// little.
final class RequestTurns {
  let script: String

  /// Each request is a path with its headers.
  init(_ requests: [(path: String, headers: [(name: String, value: String)])]) throws {
    script = "/tmp/perch-bench-turns-\(getpid())-\(Int.random(in: 0..<1_000_000)).lua"
    var text = "local made, turn = {}, 0\ninit = function()\n"
    for request in requests {
      let headers = request.headers.map { "[ [[\($0.name)]] ] = [[\($0.value)]]" }.joined(separator: ", ")
      text +=
        "  made[#made + 1] = wrk.format(\"GET\", [[\(request.path)]], { Host = \"perch\", \(headers) })\n"
    }
    text += "end\nrequest = function() turn = turn % #made + 1; return made[turn] end\n"
    guard let file = fopen(script, "we") else { throw BenchFailure(description: "cannot write \(script)") }
    fputs(text, file)
    fclose(file)
  }

  deinit { unlink(script) }
}

/// Reads one number out of a line of flat JSON.
func number(_ name: String, in line: String) -> Double? {
  let pieces = line.split { "{},:\"".contains($0) }
  guard let index = pieces.firstIndex(of: Substring(name)), index + 1 < pieces.count else { return nil }
  return Double(pieces[index + 1])
}
