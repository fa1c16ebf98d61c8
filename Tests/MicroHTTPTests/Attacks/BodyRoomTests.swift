import Glibc
import Platform
import Testing

@testable import MicroHTTP

/// Bodies of requests that no handler has seen share one bound.
@Suite struct BodyRoomTests {
  private func send(_ test: TestServer, announced: Int, sent: Int) throws -> RawClient {
    let client = try test.client()
    client.send("POST /large HTTP/1.1\r\nHost: test\r\nContent-Length: \(announced)\r\n\r\n")
    client.send([UInt8](repeating: UInt8(ascii: "x"), count: sent))
    return client
  }

  @Test(
    "a body that finds no room waits, and is taken as soon as others are done",
    .disabled(if: TestServer.distrustsLibrary, "A connection closes after a request with a body."))
  func waits() throws {
    let test = try TestServer { $0.limits.unadmittedBodyBytes = 100_000 }
    let first = try send(test, announced: 90_001, sent: 90_000)
    try #require(TestServer.until { test.server.bodyRoom.bytes == 90_000 })
    let second = try send(test, announced: 50_000, sent: 50_000)
    try #require(TestServer.until { test.server.counts.parked == 1 })
    #expect(second.isQuiet)
    #expect(test.server.bodyRoom.bytes <= 100_000)
    first.send("x")
    #expect(first.read()?.text == "90001")
    #expect(second.read()?.text == "50000")
    #expect(TestServer.until { test.server.bodyRoom.bytes == 0 })
    #expect(second.get("/hello")?.status == 200)
  }

  @Test("a body that finds no room in time is a 503 that says when to come again")
  func refuses() throws {
    let test = try TestServer {
      $0.limits.unadmittedBodyBytes = 100_000
      $0.limits.bodyRoomSeconds = 1
    }
    let first = try send(test, announced: 99_001, sent: 99_000)
    try #require(TestServer.until { test.server.bodyRoom.bytes == 99_000 })
    let second = try send(test, announced: 50_000, sent: 50_000)
    let answer = try #require(second.read())
    #expect(answer.status == 503 && answer.text.contains("\"code\":\"busy\""))
    #expect(answer.header("Retry-After") == "2")
    #expect(second.read() == nil && !second.isTimedOut)
    #expect(test.server.counters.refusals(.unadmittedBodies) == 1)
    first.send("x")
    #expect(first.read()?.text == "99001")
    #expect(TestServer.until { test.server.counters.running == 0 && test.server.bodyRoom.bytes == 0 })
  }

  @Test("bodies that block each other are not blocked for good")
  func endsBlockades() throws {
    let test = try TestServer {
      $0.limits.unadmittedBodyBytes = 100_000
      $0.limits.bodyRoomSeconds = 3
    }
    // One after the other, because the first refused request leaves its room to those that still wait.
    let clients = try (0..<4).map { _ in
      usleep(700_000)
      return try send(test, announced: 60_000, sent: 60_000)
    }
    let statuses = clients.map { $0.read()?.status ?? 0 }
    #expect(statuses.allSatisfy { $0 == 200 || $0 == 503 } && statuses.contains(200), "\(statuses)")
    #expect(TestServer.until { test.server.bodyRoom.bytes == 0 && test.server.counters.running == 0 })
  }

  @Test("what a client announces takes no memory, and a client that leaves while it waits is let go")
  func holdsOnlyReceivedBytes() throws {
    let test = try TestServer { $0.limits.unadmittedBodyBytes = 100_000 }
    var idle: [RawClient] = try (0..<20).map { _ in try send(test, announced: 1_000_000, sent: 10) }
    try #require(TestServer.until { test.server.bodyRoom.bytes == 200 })
    var waiting: [RawClient] = [try send(test, announced: 200_000, sent: 200_000)]
    try #require(TestServer.until { test.server.counts.parked == 1 })
    waiting.removeAll()
    try #require(TestServer.until { test.server.bodyRoom.bytes == 200 && test.server.counts.parked == 0 })
    idle.removeAll()
    #expect(TestServer.until { test.server.bodyRoom.bytes == 0 && test.server.counters.running == 0 })
  }

  @Test("fields of a form share the bound, files on disk do not count")
  func countsForms() throws {
    let test = try TestServer { $0.limits.unadmittedBodyBytes = 100_000 }
    func start(_ disposition: String) throws -> RawClient {
      let client = try test.client()
      let part =
        "--b\r\nContent-Disposition: form-data; \(disposition)\r\n\r\n"
        + String(repeating: "x", count: 50_000)
      client.send("POST /form HTTP/1.1\r\nHost: t\r\nContent-Type: multipart/form-data; boundary=b\r\n")
      client.send("Content-Length: 2000000\r\n\r\n" + part)
      return client
    }
    let file = try start("name=f; filename=x")
    let field = try start("name=f")
    #expect(TestServer.until { test.server.bodyRoom.bytes > 49_000 })
    #expect(test.server.bodyRoom.bytes < 60_000)
    withExtendedLifetime((file, field)) {}
  }

  @Test("when much memory was given back, the allocator is told once to let go of it")
  func empties() {
    let room = BodyRoom(most: 16 << 20)
    #expect(room.take(1 << 20))
    room.give(back: 1 << 20)
    #expect(!room.hasEmptied(), "1 MB is not much")
    for _ in 0..<3 { #expect(room.take(1 << 20)) }
    room.give(back: 2 << 20)
    #expect(!room.hasEmptied(), "some is held still")
    room.give(back: 1 << 20)
    #expect(room.hasEmptied())
    #expect(!room.hasEmptied(), "it was told")
  }

  @Test("stopping ends what is not whole at once, and lets requests that run go on to their end")
  func stopsAtOnce() throws {
    let test = try TestServer {
      $0.limits.unadmittedBodyBytes = 100_000
      $0.workers = 4
    }
    var cut = try (0..<5).map { _ in try send(test, announced: 30_000, sent: 19_000) }
    try #require(TestServer.until { test.server.bodyRoom.bytes == 95_000 })
    cut.append(try send(test, announced: 80_000, sent: 80_000))
    for text in ["GET /hello HTTP/1.1\r\nHost: te", "GET /hel", "POST /large HTTP/1.1\r\nContent-Le"] {
      let client = try test.client()
      client.send(text)
      cut.append(client)
    }
    try #require(TestServer.until { test.server.counts.parked == 1 && test.server.counters.running == 8 })
    let running = try test.client()
    running.send("GET /slow HTTP/1.1\r\nHost: test\r\n\r\n")
    try #require(TestServer.until { test.server.counters.running == 9 })
    let began = Clock.system.monotonicNanoseconds()
    test.server.shutDown(withinSeconds: 10)
    #expect(Clock.system.monotonicNanoseconds() - began < 2_000_000_000)
    #expect(running.read()?.text == "slow")
    for client in cut { #expect([0, 503].contains(client.read()?.status ?? 0)) }
  }
}
