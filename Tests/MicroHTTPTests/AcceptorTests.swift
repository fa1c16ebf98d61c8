import Glibc
import Testing

@testable import MicroHTTP

@Suite struct AcceptorTests {
  @Test("each worker has its share of the connections, whatever closes in between")
  func sharesConnections() throws {
    let test = try TestServer { $0.workers = 3 }
    var clients = try connected(to: test, 30)
    #expect(test.server.workers.map(\.connections) == [10, 10, 10])
    // Every third connection was with the same worker, which has none after this.
    for index in stride(from: 27, through: 0, by: -3) { clients.remove(at: index) }
    try #require(TestServer.until { test.server.counts.connections == 20 })
    clients += try connected(to: test, 10)
    #expect(test.server.workers.map(\.connections) == [10, 10, 10])
    for client in clients { #expect(client.get("/hello")?.status == 200) }
  }

  private func connected(to test: TestServer, _ count: Int) throws -> [RawClient] {
    try (0..<count).map { _ in
      let client = try test.client()
      try #require(client.get("/hello")?.status == 200)
      return client
    }
  }

  @Test("connections beyond the limit wait, and are served as others end")
  func keepsTheLimit() throws {
    let test = try TestServer { $0.limits.connections = 4 }
    var clients = try connected(to: test, 4)
    let waiting = try (0..<3).map { _ in try test.client() }
    for client in waiting { client.send("GET /hello HTTP/1.1\r\nHost: test\r\n\r\n") }
    #expect(clients[0].get("/hello")?.status == 200)
    #expect(test.server.counts.connections == 4)
    clients.removeFirst(3)
    for client in waiting { #expect(client.read()?.status == 200) }
    #expect(test.server.counts.connections == 4)
  }

  @Test("clients that connect and send nothing cost no connection, and the next one is served")
  func leavesSilentClientsToTheKernel() throws {
    let test = try TestServer()
    let silent = try (0..<50).map { _ in try test.client() }
    #expect(try test.client().get("/hello")?.status == 200)
    #expect(TestServer.until { test.server.counts.connections <= 1 })
    #expect(silent[49].get("/hello")?.status == 200)
  }

  @Test("more clients at once than a worker takes up in one turn are all served")
  func takesUpAll() throws {
    let test = try TestServer { $0.workers = 1 }
    let clients = try (0..<300).map { _ in try test.client() }
    for client in clients { client.send("GET /hello HTTP/1.1\r\nHost: test\r\n\r\n") }
    for client in clients { #expect(client.read()?.status == 200) }
  }

  @Test(
    "without descriptors connections wait, and are served once there are some again",
    .disabled(if: Alone.isAlone))
  func outlastsExhaustion() { #expect(Alone.passes("DescriptorsExhausted")) }

  @Suite(.enabled(if: Alone.isAlone)) struct DescriptorsExhausted {
    @Test func servesAfterwards() throws {
      let test = try TestServer()
      #expect(try test.client().get("/hello")?.status == 200)
      try #require(TestServer.until { test.server.counts.connections == 0 })
      var taken: [Int32] = []
      let spare = dup(0)
      while case let next = dup(0), next >= 0 { taken.append(next) }
      close(spare)
      // The client's socket takes the last descriptor.
      let client = try test.client()
      client.send("GET /hello HTTP/1.1\r\nHost: test\r\n\r\n")
      usleep(300_000)  // longer than the acceptor waits before it tries again
      #expect(test.server.counts.connections == 0)
      for socket in taken { close(socket) }
      #expect(client.read()?.status == 200)
    }
  }
}
