import Glibc
import Platform
import Testing

@testable import MicroHTTP

/// Parked requests that a change wakes together go on some at a time, so that other requests do not wait for
/// all of them (decision 0061).
@Suite struct ManyParkedTests {
  private static let parked = 200

  /// What requests and the test tell each other.
  private final class Board: Sendable {
    let many = Guarded<[Waiter]>([])
    let alone = Guarded<Waiter?>(nil)
    /// How many of the many went on so far.
    let begun = Guarded(0)
    /// Whether the test has done what it does while the first of the many goes on.
    let isDone = Guarded(false)

    var count: Int { begun.withLock { $0 } }

    /// One of the many goes on; the first waits for the test.
    func goOn() {
      let isFirst = begun.withLock { begun in
        begun += 1
        return begun == 1
      }
      if isFirst { _ = TestServer.until { isDone.withLock { $0 } } }
    }
  }

  /// A server with one thread. 200 requests are parked there until all are woken.
  private final class Crowd {
    let server: Server
    let board = Board()

    init() throws {
      let board = board
      var configuration = Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0))
      configuration.distrustsLibrary = TestServer.distrustsLibrary
      configuration.workers = 1
      configuration.wokenAtOnce = 64
      server = try Server(configuration)
      try server.start([
        Route(.get, "/many", operation: "many") { request in
          let waiter = request.makeWaiter()
          board.many.withLock { $0.append(waiter) }
          return .park(
            Parking(waiter, milliseconds: nil, .many) { _ in
              board.goOn()
              return .respond(.text("woken"))
            })
        },
        Route(.get, "/alone", operation: "alone") { request in
          let waiter = request.makeWaiter()
          board.alone.withLock { $0 = waiter }
          return .park(Parking(waiter, milliseconds: nil) { _ in .respond(.text("\(board.count)")) })
        },
        Route(.get, "/count", operation: "count") { _ in .respond(.text("\(board.count)")) },
      ])
    }

    deinit {
      board.isDone.withLock { $0 = true }
      server.shutDown(withinSeconds: 5)
    }

    func client(_ path: String) throws -> RawClient {
      let client = try #require(RawClient(port: server.port))
      client.send("GET \(path) HTTP/1.1\r\nHost: test\r\n\r\n")
      return client
    }

    /// Parks the many.
    func park() throws -> [RawClient] {
      let clients = try (0..<ManyParkedTests.parked).map { _ in try client("/many") }
      try #require(TestServer.until { self.server.counts.parked == ManyParkedTests.parked })
      return clients
    }

    /// Wakes the many, and runs `body` while the first of them goes on.
    func wakeMany(_ body: () -> Void) throws {
      Waiter.wakeAll(board.many.withLock { $0 })
      try #require(TestServer.until { self.board.count > 0 })
      body()
      board.isDone.withLock { $0 = true }
    }
  }

  @Test("a new request waits for some of those that are woken together, not for all")
  func newRequest() throws {
    let crowd = try Crowd()
    let clients = try crowd.park()
    let other = try #require(RawClient(port: crowd.server.port))
    try crowd.wakeMany { other.send("GET /count HTTP/1.1\r\nHost: test\r\n\r\n") }
    let before = try #require(other.read().flatMap { Int($0.text) })
    #expect(before <= Self.parked * 3 / 4, "\(before) went on before it")
    for client in clients { #expect(client.read()?.text == "woken") }
  }

  @Test("a request that waits for something of its own goes on before those that are woken together")
  func alone() throws {
    let crowd = try Crowd()
    let clients = try crowd.park()
    let other = try crowd.client("/alone")
    try #require(TestServer.until { crowd.server.counts.parked == Self.parked + 1 })
    try crowd.wakeMany { crowd.board.alone.withLock { $0 }?.wake() }
    let before = try #require(other.read().flatMap { Int($0.text) })
    #expect(before <= Self.parked * 3 / 4, "\(before) went on before it")
    for client in clients { #expect(client.read()?.text == "woken") }
  }

  @Test("a server that ends answers all that are woken together")
  func end() throws {
    let crowd = try Crowd()
    let clients = try crowd.park()
    crowd.board.isDone.withLock { $0 = true }
    crowd.server.shutDown(withinSeconds: 5)
    for client in clients { #expect(client.read()?.text == "woken") }
  }
}
