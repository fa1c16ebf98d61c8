import Glibc
import Platform
import Testing

@testable import MicroHTTP

/// The memory of event streams: a piece while a client reads, nothing while the stream waits.
@Suite struct StreamMemoryTests {
  static let burstBytes = 1_048_576

  private func open(_ test: TestServer, _ count: Int) throws -> [RawClient] {
    let clients = try (0..<count).map { _ in
      let client = try test.client()
      client.send("GET /burst HTTP/1.1\r\nHost: test\r\n\r\n")
      return client
    }
    for client in clients { #expect(client.readHead()?.status == 200) }
    try #require(TestServer.until { test.server.counts.parked == count })
    return clients
  }

  /// Reads at least `bytes` and throws them away. False: they did not come.
  private func skip(_ bytes: Int, _ client: RawClient) -> Bool {
    var room = [UInt8](repeating: 0, count: 65_536)
    var rest = bytes
    while rest > 0 {
      let count = recv(client.socket, &room, room.count, 0)
      guard count > 0 else { return false }
      rest -= count
    }
    return true
  }

  @Test(
    "200 streams that read 1 MB each and rest keep at most 10 KB each of it", .disabled(if: Alone.isAlone))
  func rest() { #expect(Alone.passes("StreamsAtRest")) }

  @Suite(.enabled(if: Alone.isAlone)) struct StreamsAtRest {
    @Test func keepNothing() throws {
      let tests = StreamMemoryTests()
      let test = try TestServer()
      // The memory that the allocator and the worker threads need once.
      do {
        let first = try tests.open(test, 8)
        test.board.publish()
        for client in first { #expect(tests.skip(StreamMemoryTests.burstBytes, client)) }
      }
      try #require(TestServer.until { test.server.counts.connections == 0 })
      let clients = try tests.open(test, 200)
      let before = Alone.anonymousBytes
      test.board.publish()
      for client in clients { #expect(tests.skip(StreamMemoryTests.burstBytes, client)) }
      try #require(TestServer.until { test.server.counts.parked == 200 })
      #expect(test.server.streamCounts.bytes == 0)
      let each = (Alone.anonymousBytes - before) / 200
      if !Alone.isSanitized { #expect(each <= 10_240, "\(each) bytes for each stream") }
    }
  }

  @Test("once streams that held much memory rest, the allocator is told once to give it back")
  func comesToRest() throws {
    let memory = StreamMemory(Limits())
    let waiter = Waiter(lot: try TestServer().server.lot)
    func take(_ pieces: Int) {
      for _ in 0..<pieces {
        var turn: StreamMemory.Turn?
        #expect(memory.take(&turn, waiter, now: 0))
      }
    }
    let piece = Limits().streamPieceBytes
    take(16)
    memory.give(16 * piece)
    #expect(!memory.hasComeToRest() && !memory.hasComeToRest(), "1 MB is not much")
    take(48)
    #expect(!memory.hasComeToRest(), "they were just served")
    memory.give(48 * piece)
    #expect(memory.hasComeToRest())
    #expect(!memory.hasComeToRest(), "it was told")
  }

  @Test("streams whose pieces do not fit take turns: no more is kept than the bound, and all get everything")
  func turns() throws {
    let piece = Limits().streamPieceBytes
    let test = try TestServer { $0.limits.streamMemoryBytes = 3 * piece }
    let clients = try open(test, 40)
    let isOver = Guarded(false)
    let most = Guarded(0)
    let watch = Thread("watch") {
      while !isOver.withLock({ $0 }) {
        let bytes = test.server.streamCounts.bytes
        most.withLock { $0 = max($0, bytes) }
        usleep(200)
      }
    }
    test.board.publish()
    for client in clients { #expect(skip(Self.burstBytes, client)) }
    #expect(TestServer.until { test.server.counts.parked == 40 && test.server.streamCounts.bytes == 0 })
    isOver.withLock { $0 = true }
    watch.join()
    #expect(most.withLock { $0 } > 0 && most.withLock { $0 } <= 3 * piece)
    #expect(test.server.streamCounts.refused == 0)
  }

  @Test("a stream whose turn does not come is closed; those that held it up are too, and then there is room")
  func turnEnds() throws {
    let piece = Limits().streamPieceBytes
    let test = try TestServer {
      $0.limits.streamMemoryBytes = 2 * piece
      $0.limits.streamTurnSeconds = 1
      $0.limits.heartbeatSeconds = 1
      $0.limits.streamStallSeconds = 4
    }
    // These clients never read, so that their pieces stay.
    let idle = try (0..<2).map { _ in try test.client() }
    for client in idle { client.send("GET /flood HTTP/1.1\r\nHost: test\r\n\r\n") }
    try #require(TestServer.until { test.server.streamCounts.bytes == 2 * piece })
    usleep(300_000)
    let client = try test.client()
    client.send("GET /burst HTTP/1.1\r\nHost: test\r\n\r\n")
    #expect(client.readHead()?.status == 200)
    #expect(TestServer.until { test.server.streamCounts.refused == 1 })
    while let chunk = client.readChunk(), !chunk.isEmpty { #expect(chunk == Array(":\n\n".utf8)) }
    #expect(TestServer.until { test.server.counts.connections == 0 || test.server.streamCounts.bytes == 0 })
    let clients = try open(test, 1)
    test.board.publish()
    #expect(skip(Self.burstBytes, clients[0]))
  }

  @Test("the metrics tell connections by what happens on them")
  func activities() throws {
    let test = try TestServer()
    let idle = try test.client()
    #expect(idle.get("/hello")?.status == 200)
    let reading = try test.client()
    reading.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n")
    let streams = try open(test, 1)
    let parked = try test.client()
    parked.send("GET /wait HTTP/1.1\r\nHost: test\r\n\r\n")
    let wanted: [ConnectionActivity: Int] = [.idle: 1, .reading: 1, .parked: 1, .streaming: 1]
    #expect(TestServer.until { test.server.connectionCounts == wanted }, "\(test.server.connectionCounts)")
    withExtendedLifetime(streams) {}
  }
}
