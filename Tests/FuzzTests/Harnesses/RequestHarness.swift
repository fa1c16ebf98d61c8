import Glibc
import Platform

@testable import ChatAPI
@testable import MicroHTTP

/// Raw bytes over a real connection to a real server: in time, each request is answered or the connection
/// closed, and no answer is an error of the server's.
///
/// The first byte gives the number of pieces in which the rest is sent. A connection whose request is cut
/// short is closed at the server's next tick, a second later: libFuzzer waits for it with one input in some
/// hundreds, the tests with every one.
final class RequestHarness: Sendable {
  static let shared = RequestHarness()
  private let server: Server
  private let turn = Guarded(0)

  /// The time in which an answer must come, or the connection be closed (ms).
  private static let patience: Int32 = 20_000
  /// How long an impatient client waits for more (ms).
  private static let glance: Int32 = 5
  private static let isFuzzing = getenv("PERCH_FUZZ_TARGET") != nil

  private init() {
    var configuration = Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0))
    configuration.limits.headSeconds = 1
    configuration.limits.bodySeconds = 1
    configuration.workers = 1
    do {
      server = try Server(configuration)
      try server.start(RequestHarness.routes)
    } catch {
      fatalError("the server did not start: \(error)")
    }
  }

  private static let routes: [Route] = [
    Route(.get, "/", operation: "none") { _ in .respond(.text("hello")) },
    Route(.get, "/m", operation: "messages") { request in
      let parameters = try MessageParameters(request)
      try parameters.check()
      return .respond(.text("\(parameters.query.limit) \(Preferences(request).milliseconds)"))
    },
    Route(.get, "/c", operation: "channels") { request in
      var parameters = Parameters(request)
      let query = ChannelParameters.query(&parameters)
      try parameters.end()
      return .respond(.text("\(query.limit)"))
    },
    Route(.get, "/p/{a}/{b}", operation: "segments") { request in
      .respond(.text("\(request.parameter("a")!)|\(request.parameter(1))|\(request.path)"))
    },
    Route(.get, "/f", operation: "file") { request in
      .respond(try .file("/etc/hostname", type: "text/plain", etag: "\"v1\"", for: request))
    },
    Route(.post, "/e", operation: "echo", body: .collected(limit: 200, types: [])) { request in
      var body = ByteBuffer(capacity: 64)
      body.append(request.body)
      return .respond(.json(body))
    },
    Route(.post, "/f", operation: "form", body: .multipart(limit: 1000, orCollected: 100)) { request in
      .respond(.text("\(request.parts?.count ?? -1)"))
    },
  ]

  func run(_ input: UnsafeRawBufferPointer) throws {
    guard let pieces = input.first, input.count < 12_000 else { return }
    let client = try connect()
    defer { close(client) }
    let bytes = UnsafeRawBufferPointer(rebasing: input.dropFirst())
    let size = max(1, bytes.count / (1 + Int(pieces % 4)))
    var offset = 0
    while offset < bytes.count {
      let sent = send(
        client, bytes.baseAddress! + offset, min(size, bytes.count - offset), Int32(MSG_NOSIGNAL))
      if sent <= 0 { break }
      offset += sent
    }
    let isPatient = !RequestHarness.isFuzzing || bytes.reduce(0) { $0 &* 31 &+ Int($1) } & 511 == 0
    if isPatient { shutdown(client, Int32(SHUT_WR)) }
    try inspect(try read(client, isPatient: isPatient))
  }

  private func read(_ client: Int32, isPatient: Bool) throws -> [UInt8] {
    var answer: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 16_384)
    while true {
      if !hasMore(client, isPatient ? RequestHarness.patience : RequestHarness.glance) {
        try check(!isPatient, "neither answered nor closed")
        return answer
      }
      let count = recv(client, &room, room.count, 0)
      if count <= 0 { return answer }
      answer += room[..<count]
    }
  }

  /// Whether bytes or the end come within so many milliseconds. libFuzzer's alarm may interrupt the wait.
  private func hasMore(_ client: Int32, _ milliseconds: Int32) -> Bool {
    var wait = pollfd(fd: client, events: Int16(POLLIN), revents: 0)
    var found = poll(&wait, 1, milliseconds)
    while found < 0, errno == EINTR { found = poll(&wait, 1, milliseconds) }
    return found == 1
  }

  private func inspect(_ answers: [UInt8]) throws {
    if answers.isEmpty { return }
    try check(answers.starts(with: "HTTP/1.1 ".utf8), "no answer of HTTP")
    let status = String(decoding: answers.dropFirst(9).prefix(3), as: UTF8.self)
    try check(Int(status).map { (100...599).contains($0) } ?? false, "the status \(status)")
    try check(status != "500", "a fault of the server's: \(String(decoding: answers, as: UTF8.self))")
  }

  /// A connection from one of many addresses, so that ports that were just used are not waited for.
  private func connect() throws -> Int32 {
    let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    let number = turn.withLock { turn in
      turn += 1
      return turn
    }
    var yes: Int32 = 1
    setsockopt(client, SOL_SOCKET, SO_REUSEADDR, &yes, 4)
    setsockopt(client, 0, 24, &yes, 4)  // IP_BIND_ADDRESS_NO_PORT
    var own = RequestHarness.address(UInt32(0x7F00_0002 + number % 60_000), port: 0)
    _ = withUnsafePointer(to: &own) {
      bind(client, UnsafeRawPointer($0).assumingMemoryBound(to: sockaddr.self), 16)
    }
    var peer = RequestHarness.address(0x7F00_0001, port: server.port)
    let code = withUnsafePointer(to: &peer) {
      Glibc.connect(client, UnsafeRawPointer($0).assumingMemoryBound(to: sockaddr.self), 16)
    }
    try check(code == 0, "no connection: \(errno)")
    return client
  }

  private static func address(_ host: UInt32, port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = host.bigEndian
    return address
  }
}
