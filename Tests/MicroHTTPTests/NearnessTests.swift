import CMicroHTTPDRefusals
import Glibc
import Platform
import Testing

@testable import MicroHTTP

/// Which request a worker comes to next is the library's secret: what is fetched beforehand has to be that.
@Suite struct NearnessTests {
  /// A request that went on, and whose connection was told to come after its own.
  private struct Step {
    let connection: UnsafeMutableRawPointer
    let next: UnsafeMutableRawPointer?
  }

  @Test("of many that are resumed at once, the one that comes next is told beforehand")
  func order() throws {
    var configuration = Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0))
    configuration.workers = 1
    let server = try Server(configuration)
    let (waiters, steps) = (Guarded<[Waiter]>([]), Guarded<[Step]>([]))
    let route = Route(.get, "/wait", operation: "wait") { request in
      let waiter = request.makeWaiter()
      waiters.withLock { $0.append(waiter) }
      return .park(
        Parking(waiter, milliseconds: nil) { _ in
          let connection = UnsafeMutableRawPointer(request.connection!)
          // The first ones come while others are still being resumed.
          if steps.withLock({ $0.isEmpty }) { usleep(100_000) }
          steps.withLock { $0.append(Step(connection: connection, next: mhd_ready_after(connection))) }
          return .respond(.text("woken"))
        })
    }
    try server.start([route])
    defer { server.shutDown(withinSeconds: 5) }
    let clients = try (0..<60).map { _ in
      let client = try #require(RawClient(port: server.port))
      client.send("GET /wait HTTP/1.1\r\nHost: test\r\n\r\n")
      return client
    }
    try #require(TestServer.until { server.counts.parked == clients.count })
    Waiter.wakeAll(waiters.withLock { $0 })
    for client in clients { #expect(client.read()?.text == "woken") }
    let found = steps.withLock { $0 }
    let told = zip(found, found.dropFirst()).filter { $0.next == $1.connection }.count
    #expect(found.count == 60 && told >= 50, "\(told) of 59 followers were told")
  }
}
