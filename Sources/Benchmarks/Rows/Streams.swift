import Glibc

extension Row {
  /// The memory that an event stream keeps once it has read 1 MB and rests, beyond that of a stream that has
  /// read nothing.
  static let streams = Row(
    name: "streams", work: "event streams that read 1 MB each and rest, against streams that read nothing"
  ) { bench in
    let folder = try ScratchFolder("streams")
    let server = try TestedServer(
      "ours", ["/proc/self/exe", "serve-feed", "\(StreamReaders.port)", "20", folder.path + "/views"],
      port: StreamReaders.port)
    defer { server.child.stop() }
    let lines = ProcFile.text(folder.path + "/views").split(separator: "\n")
    let headers = lines.dropFirst().compactMap { $0.split(separator: "\t").last.map(String.init) }
    guard let first = lines.first?.dropFirst(), !headers.isEmpty else {
      throw BenchFailure(description: "no views were opened")
    }
    func megabytes() -> Double { AnonymousMemory.megabytes(of: server.child.pid) ?? .nan }
    for _ in 0..<StreamReaders.messages { try publish(server) }
    let resting = try StreamReaders(bench.parked, since: nil, headers)
    let before = megabytes()
    resting.end()
    let reading = try StreamReaders(bench.parked, since: String(first), headers)
    try reading.read(bytes: 1_000_000)
    let after = megabytes()
    let title = "\(bench.parked) streams that read 1 MB each"
    return [
      Figure(
        title: title, unit: "KB more each", ours: (after - before) * 1024 / Double(bench.parked), peer: nil,
        peerName: "", goal: .atMost(10)),
      Figure(title: title, unit: "MB anonymous", ours: after, peer: nil, peerName: "", goal: nil),
    ]
  }

  private static func publish(_ server: TestedServer) throws {
    let line = try KeptConnection(port: server.port, headers: "")
    _ = try line.ask("POST", "/pub/x")
  }
}

/// Clients of event streams, all read by one thread.
private final class StreamReaders {
  static let port = 18_262
  /// This many messages make more than 1 MB of events.
  static let messages = 2_000
  private var sockets: [Int32] = []
  private var counts: [Int] = []

  /// Opens `count` streams, spread over the users, and waits until each was answered.
  init(_ count: Int, since cursor: String?, _ headers: [String]) throws {
    for number in 0..<count {
      let socket = try StreamReaders.connect()
      let request =
        "GET /v1/events\(cursor.map { "?since=\($0)" } ?? "") HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        + "Accept: text/event-stream\r\n"
        + headers[number % headers.count] + "\r\n\r\n"
      guard send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL)) == request.utf8.count else {
        throw BenchFailure(description: "a stream cannot be asked for")
      }
      sockets.append(socket)
      counts.append(0)
    }
    try read(bytes: 1)
  }

  deinit { end() }

  func end() {
    for socket in sockets { close(socket) }
    sockets = []
  }

  private static func connect() throws -> Int32 {
    let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
    let code = withUnsafeBytes(of: &address) {
      Glibc.connect(socket, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
    }
    guard code == 0 else { throw BenchFailure(description: "nothing listens on port \(port)") }
    return socket
  }

  /// Reads until each stream has sent at least `bytes` and no stream sends more.
  func read(bytes: Int) throws {
    var room = [UInt8](repeating: 0, count: 1 << 18)
    var waiting = sockets.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    while true {
      let isEnough = counts.allSatisfy { $0 >= bytes }
      let found = poll(&waiting, nfds_t(waiting.count), isEnough ? 3_000 : 60_000)
      if found == 0, isEnough { return }
      guard found > 0 else {
        throw BenchFailure(description: "streams stopped at \(counts.min() ?? 0) bytes")
      }
      for number in waiting.indices where waiting[number].revents != 0 {
        let got = recv(sockets[number], &room, room.count, 0)
        guard got > 0 else { throw BenchFailure(description: "stream \(number) ended") }
        if counts[number] == 0, !room.starts(with: Array("HTTP/1.1 200".utf8)) {
          throw BenchFailure(description: String(decoding: room.prefix(got), as: UTF8.self))
        }
        counts[number] += got
      }
    }
  }
}
