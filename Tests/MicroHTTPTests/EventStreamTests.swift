import Glibc
import MicroHTTP
import Platform
import Testing

@Suite struct EventStreamTests {
  private func open(_ test: TestServer) throws -> RawClient {
    let client = try test.client()
    client.send("GET /events HTTP/1.1\r\nHost: test\r\nAccept: text/event-stream\r\n\r\n")
    let head = try #require(client.readHead())
    #expect(head.status == 200)
    #expect(head.header("Content-Type") == "text/event-stream")
    #expect(client.readChunk() == Array(":\n\n".utf8))
    try #require(TestServer.until { test.server.counts.parked >= 1 })
    return client
  }

  @Test("a stream carries each event as it happens")
  func streams() throws {
    let test = try TestServer()
    let client = try open(test)
    for number in 1...20 {
      test.board.publish()
      #expect(client.readChunk() == Array("event: tick\ndata: {\"number\":\(number)}\n\n".utf8))
      try #require(TestServer.until { test.server.counts.parked == 1 })
    }
  }

  @Test("a comment is sent when nothing else was")
  func beats() throws {
    let test = try TestServer { $0.limits.heartbeatSeconds = 1 }
    let client = try open(test)
    #expect(client.readChunk() == Array(":\n\n".utf8))
    test.board.publish()
    #expect(client.readChunk() == Array("event: tick\ndata: {\"number\":1}\n\n".utf8))
  }

  @Test("a client that leaves ends its stream, and stopping ends all streams properly")
  func ends() throws {
    let test = try TestServer()
    do { _ = try open(test) }
    #expect(TestServer.until { test.board.state.withLock { $0.streamsEnded } == 1 })
    let client = try open(test)
    test.server.shutDown(withinSeconds: 5)
    #expect(client.readChunk() ?? [] == [])
    #expect(test.board.state.withLock { $0.streamsEnded } == 2)
  }

  @Test("a reader that does not take what it was sent is cut off")
  func cutsSlowReaders() throws {
    let test = try TestServer { $0.limits.streamStallSeconds = 1 }
    let client = try test.client()
    client.send("GET /flood HTTP/1.1\r\nHost: test\r\n\r\n")
    #expect(TestServer.until { test.board.state.withLock { $0.streamsEnded } == 1 })
    #expect(TestServer.until { test.server.counts.connections == 0 })
  }
}
