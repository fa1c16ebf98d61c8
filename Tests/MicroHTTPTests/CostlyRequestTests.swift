import Glibc
import Platform
import Testing

@testable import MicroHTTP

/// Parked requests of a costly kind go on some at a time, and then their answers are sent (decision 0054).
@Suite struct CostlyRequestTests {
  /// A server whose costly requests, when they are woken, call `each` with how many went on before them.
  private final class Costly: Sendable {
    private let server: Server
    private let waiters = Guarded<[Waiter]>([])
    private let begun = Guarded(0)
    private let ended = Guarded(0)

    init(_ each: @escaping @Sendable (Costly, Int, Request) throws -> Outcome) throws {
      var configuration = Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0))
      configuration.distrustsLibrary = TestServer.distrustsLibrary
      configuration.workers = 1
      server = try Server(configuration)
      let route = Route(.get, "/", operation: "costly") { [unowned self] request in
        park(request) { [unowned self] in
          let number = begun.withLock { begun in
            defer { begun += 1 }
            return begun
          }
          defer { ended.withLock { $0 += 1 } }
          return try each(self, number, request)
        }
      }
      try server.start([route])
    }

    deinit { server.shutDown(withinSeconds: 5) }

    func park(
      _ request: Request, milliseconds: Int? = nil, _ goOn: @escaping () throws -> Outcome
    ) -> Outcome {
      let waiter = request.makeWaiter()
      waiters.withLock { $0.append(waiter) }
      return .park(Parking(waiter, milliseconds: milliseconds, .costly) { _ in try goOn() })
    }

    /// Connections whose requests are parked.
    func clients(_ count: Int) throws -> [RawClient] {
      let clients = try (0..<count).map { _ in try #require(RawClient(port: server.port)) }
      for client in clients { client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n") }
      try awaitParked(count)
      return clients
    }

    func awaitParked(_ count: Int) throws {
      try #require(TestServer.until { self.server.counts.parked == count })
    }

    func wakeAll() {
      Waiter.wakeAll(
        waiters.withLock { waiters in
          defer { waiters = [] }
          return waiters
        })
    }

    /// Waits until no request is parked, in a request that went on.
    func awaitWoken() { _ = TestServer.until { self.server.counts.parked == 0 } }

    /// Wakes all, and waits until so many went on.
    func wakeAll(_ count: Int) throws {
      wakeAll()
      try #require(TestServer.until { self.ended.withLock { $0 } == count })
    }
  }

  /// The sockets of clients, and what their server saw of them.
  private final class Seen: Sendable {
    let clients = Guarded<[Int32]>([])
    let answered = Guarded<[Int]>([])

    /// How many clients have bytes to read.
    var ready: Int {
      clients.withLock { clients in
        clients.count { socket in
          var byte: UInt8 = 0
          return recv(socket, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) > 0
        }
      }
    }

    func note() {
      let ready = ready
      answered.withLock { $0.append(ready) }
    }
  }

  @Test("while requests go on, none of their answers is sent")
  func together() throws {
    // A thread that gets no processor for a millisecond ends a group early, so the best of some tries counts.
    let fewest = try (0..<5).map { _ in
      let seen = Seen()
      let costly = try Costly { costly, number, _ in
        // All others are woken while the first goes on, so they go on together.
        if number == 0 { costly.awaitWoken() }
        seen.note()
        return .respond(.text("\(number)"))
      }
      let clients = try costly.clients(20)
      seen.clients.withLock { $0 = clients.map(\.socket) }
      try costly.wakeAll(20)
      #expect(Set(clients.map { $0.read()?.text }) == Set((0..<20).map { "\($0)" }))
      return seen.answered.withLock { $0[19] }
    }.min()
    #expect(fewest ?? 20 <= 1, "none but the first has its answer when the last goes on")
  }

  @Test("requests that take long do not hold each other's answers up")
  func slow() throws {
    let seen = Seen()
    let costly = try Costly { costly, number, _ in
      if number == 0 { costly.awaitWoken() }
      usleep(1500)
      if number > 1 { seen.note() }
      return .respond(.text("\(number)"))
    }
    let clients = try costly.clients(10)
    seen.clients.withLock { $0 = clients.map(\.socket) }
    try costly.wakeAll(10)
    for client in clients { #expect(client.read()?.status == 200) }
    #expect(seen.answered.withLock { $0 } == Array(2..<10))
  }

  @Test("a request parks again as often as it likes, and goes on at once if it was woken meanwhile")
  func parksAgain() throws {
    let costly = try Costly { costly, number, request in
      costly.park(request) {
        guard number.isMultiple(of: 2) else { return .respond(.text("again")) }
        // Woken before it parks: it goes on without another wake.
        request.makeWaiter().wake()
        return costly.park(request, milliseconds: 60_000) { .respond(.text("again")) }
      }
    }
    let clients = try costly.clients(30)
    costly.wakeAll()
    try costly.awaitParked(30)
    #expect(clients.allSatisfy { $0.isQuiet })
    costly.wakeAll()
    #expect(clients.allSatisfy { $0.read()?.text == "again" })
    for client in clients { client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n") }
    try costly.awaitParked(30)
    costly.wakeAll()
    try costly.awaitParked(30)
    costly.wakeAll()
    #expect(clients.allSatisfy { $0.read()?.text == "again" }, "the connections serve on")
  }

  @Test("an error is answered, and a shared answer has an id for each request")
  func answers() throws {
    var body = ByteBuffer(capacity: 16)
    body.append("{}")
    let shared = SharedResponse(body: body)
    let costly = try Costly { costly, number, _ in
      if number == 0 { costly.awaitWoken() }
      if number == 1 { throw Problem(409, "wrong_state", detail: "do something else") }
      if number == 2 { throw TestServer.Unexplained() }
      return .respond(shared.response)
    }
    let clients = try costly.clients(20)
    costly.wakeAll()
    let answers = try clients.map { try #require($0.read()) }
    #expect(answers.map(\.status).sorted() == [Int](repeating: 200, count: 18) + [409, 500])
    #expect(Set(answers.map { $0.header("X-Request-Id") }).count == 20)
  }
}
