import Glibc
import Platform
import TestFolders
import Testing

@testable import MicroHTTP

/// After each attack the same process answers, and has nothing left of the attack.
@Suite struct LeftBehindTests {
  @Test(
    "attacks leave no running request, descriptor or memory behind, and stopping takes no time",
    .disabled(if: Alone.isAlone))
  func leaveNothing() { #expect(Alone.passes("AttackRounds")) }

  @Suite(.enabled(if: Alone.isAlone), .serialized) struct AttackRounds {
    /// Makes a small attack, so that the heap has grown, then measures, makes a large attack and compares.
    private func attack(
      _ test: TestServer, _ few: Int, _ many: Int, keeping most: Int = 2 << 20,
      _ round: (TestServer, Int) throws -> Void
    ) throws {
      try round(test, few)
      try #require(TestServer.until { test.server.counts.connections == 0 })
      let (descriptors, memory) = (Alone.descriptors, Alone.anonymousBytes)
      try round(test, many)
      #expect(TestServer.until { test.server.counts.connections == 0 })
      #expect(test.server.counters.running == 0)
      #expect(test.server.bodyRoom.bytes == 0)
      #expect(Alone.descriptors == descriptors)
      if !Alone.isSanitized {
        let more = Alone.anonymousBytes - memory
        #expect(more < most, "\(more) bytes more")
      }
      #expect(try test.client().get("/hello")?.status == 200)
      let began = Clock.system.monotonicNanoseconds()
      test.server.shutDown(withinSeconds: 10)
      #expect(Clock.system.monotonicNanoseconds() - began < 2_000_000_000)
    }

    @Test(
      "queries of so many items that the library forgets the request", arguments: [112, 115, 300])
    func forgottenRequests(_ items: Int) throws {
      let query = String(repeating: "a=b&", count: items)
      let request = "GET /hello?\(query) HTTP/1.1\r\nHost: test\r\n\r\n"
      try attack(try TestServer(), 50, 100) { test, count in
        for number in 0..<count {
          let client = try test.client(source: 2 + number % 100)
          client.send(request)
          if number % 2 == 0 { client.endSending() }
          let answer = client.read()
          #expect([200, 431].contains(answer?.status ?? 0))
          #expect(TestServer.distrustsLibrary || answer?.status == 200)
        }
      }
    }

    @Test("a cookie and a length that are both refused")
    func twiceRefused() throws {
      let request =
        "POST /echo HTTP/1.1\r\nHost: test\r\nCookie: \(String(repeating: "a", count: 4000))\r\n"
        + "Content-Length: x\r\n\r\n"
      try attack(try TestServer(), 50, 100) { test, count in
        for number in 0..<count {
          let client = try test.client(source: 2 + number % 100)
          client.send(request)
          #expect(client.read()?.status == 431)
          #expect(client.read() == nil && !client.isTimedOut)
        }
      }
    }

    @Test("bodies of 1 MB that stay unfinished")
    func unfinishedBodies() throws {
      let part = [UInt8](repeating: UInt8(ascii: "x"), count: 1_000_000)
      let head = "POST /large HTTP/1.1\r\nHost: test\r\nContent-Length: 1048576\r\n\r\n"
      let before = Alone.anonymousBytes
      let test = try TestServer {
        $0.limits.unadmittedBodyBytes = 4_000_000
        $0.limits.bodyRoomSeconds = 1
      }
      // The allocator keeps up to twice the largest block for each of the two workers.
      try attack(test, 20, 20, keeping: 4_718_592) { test, count in
        let clients = try (0..<count).map { number in
          let client = try test.client(source: 2 + number % 100)
          // Sends as much as the sockets take, because the server stops reading when it has no room.
          client.send(head)
          client.sendUntilFull(part)
          return client
        }
        try #require(TestServer.until { test.server.bodyRoom.bytes > 3_900_000 })
        #expect(test.server.bodyRoom.bytes <= 4_000_000)
        #expect(Alone.isSanitized || Alone.anonymousBytes - before < 12_000_000)
        #expect(try test.client().get("/hello")?.status == 200)
        for client in clients { client.endSending() }
      }
    }
  }
}
