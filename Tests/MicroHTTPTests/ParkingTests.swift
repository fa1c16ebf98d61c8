import Glibc
import MicroHTTP
import Platform
import Testing

@Suite struct ParkingTests {
  private func park(_ test: TestServer, _ count: Int, path: String = "/wait") throws -> [RawClient] {
    let clients = try (0..<count).map { number in
      let client = try test.client(source: 2 + number % 8)
      client.send("GET \(path) HTTP/1.1\r\nHost: test\r\n\r\n")
      return client
    }
    try #require(TestServer.until { test.server.counts.parked == count })
    return clients
  }

  private static let paths = ["/wait", "/costly"]

  @Test("a parked request is woken, times out, and can park again on the same connection", arguments: paths)
  func wakes(_ path: String) throws {
    let test = try TestServer()
    let client = try park(test, 1, path: path)[0]
    test.board.publish()
    #expect(client.read()?.text == "woken 1")
    let start = Clock.system.monotonicNanoseconds()
    #expect(client.get("\(path)?ms=120")?.text == "deadline 1")
    let waited = Clock.system.monotonicNanoseconds() - start
    #expect(waited > 119_000_000 && waited < 2_000_000_000)
    #expect(client.get("\(path)?ms=0")?.text == "deadline 1")
    client.send("GET \(path) HTTP/1.1\r\nHost: test\r\n\r\n")
    try #require(TestServer.until { test.server.counts.parked == 1 })
    test.board.publish()
    #expect(client.read()?.text == "woken 2")
    #expect(client.get("/hello")?.status == 200)
  }

  @Test("more connections than one daemon has are parked, woken and parked again", arguments: paths)
  func manyDaemons(_ path: String) throws {
    let test = try TestServer()
    let clients = try park(test, 700, path: path)
    for round in 1...3 {
      test.board.publish()
      #expect(clients.allSatisfy { $0.read()?.text == "woken \(round)" })
      guard round < 3 else { break }
      for client in clients { client.send("GET \(path) HTTP/1.1\r\nHost: test\r\n\r\n") }
      try #require(TestServer.until { test.server.counts.parked == clients.count })
    }
    // A wake of one among many, and time, reach the daemons of all.
    for client in clients { client.send("GET \(path)?ms=100 HTTP/1.1\r\nHost: test\r\n\r\n") }
    #expect(clients.allSatisfy { $0.read()?.text == "deadline 3" })
    #expect(clients.allSatisfy { $0.get("/hello")?.status == 200 })
  }

  @Test("a wake that comes before the parking is not lost")
  func keepsEarlyWakes() throws {
    let test = try TestServer()
    #expect(try test.client().get("/now")?.text == "woken")
  }

  @Test(
    "requests that subscribe, look and park while others publish never miss a publication", arguments: paths)
  func losesNoWake(_ path: String) throws {
    let test = try TestServer()
    let rounds = 1500
    let failures = Guarded(0)
    let threads = (0..<4).map { _ in
      Thread("reader") { if !ParkingTests.follow(test, path, to: rounds) { failures.withLock { $0 += 1 } } }
    }
    for number in 0..<rounds {
      test.board.publish()
      if number % 3 == 0 { usleep(100) }
    }
    for thread in threads { thread.join() }
    #expect(failures.withLock { $0 } == 0)
  }

  /// Polls until publication `last` was seen. False when a poll timed out or went back.
  private static func follow(_ test: TestServer, _ path: String, to last: Int) -> Bool {
    // Without a connection the client cannot follow, which counts as a failure.
    guard let client = try? test.client() else { return false }
    var seen = 0
    while seen < last {
      let text = client.get("\(path)?since=\(seen)&ms=5000")?.text ?? ""
      let number = Int(text.split(separator: " ").last ?? "") ?? -1
      if text.hasPrefix("deadline") || number <= seen { return false }
      seen = number
    }
    return true
  }

  @Test(
    "a client that leaves while parked is noticed within 2 s and its request is given up", arguments: paths)
  func noticesHangUps(_ path: String) throws {
    let test = try TestServer()
    var clients = try park(test, 50, path: path)
    clients.removeAll()
    let start = Clock.system.monotonicNanoseconds()
    #expect(TestServer.until { test.server.counts.connections == 0 })
    #expect(Clock.system.monotonicNanoseconds() - start < 2_000_000_000)
    #expect(test.board.state.withLock { $0.left } == 50)
    #expect(test.server.counts.parked == 0)
    test.board.publish()
    #expect(try test.client().get("/hello")?.status == 200)
  }

  @Test("a client that has left before its request parks is noticed, too")
  func noticesEarlierHangUps() throws {
    let test = try TestServer()
    let client = try test.client()
    for path in ["/slow", "/wait?ms=60000"] { client.send("GET \(path) HTTP/1.1\r\nHost: test\r\n\r\n") }
    client.endSending()
    #expect(client.read()?.text == "slow")
    #expect(TestServer.until { test.board.state.withLock { $0.left } == 1 })
    #expect(TestServer.until { test.server.counts.connections == 0 })
  }

  @Test("stopping answers everything parked and does not wait for idle connections", arguments: paths)
  func stopsWithParked(_ path: String) throws {
    let test = try TestServer()
    let clients = try park(test, 1000, path: path)
    let idle = try test.client()
    #expect(idle.get("/hello")?.status == 200)
    let start = Clock.system.monotonicNanoseconds()
    test.server.shutDown(withinSeconds: 10)
    #expect(Clock.system.monotonicNanoseconds() - start < 2_000_000_000)
    for client in clients { #expect(client.read()?.text == "shutdown 0") }
    #expect(RawClient(port: test.server.port) == nil)
  }

  @Test("stopping lets a running request end, and cuts what exceeds its time")
  func stopsWithRunning() throws {
    let test = try TestServer()
    let client = try test.client()
    client.send("GET /slow HTTP/1.1\r\nHost: test\r\n\r\n")
    try #require(TestServer.until { test.server.counters.running == 1 })
    let half = try test.client()
    half.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nab")
    try #require(TestServer.until { test.server.counters.running == 2 })
    test.server.shutDown(withinSeconds: 1)
    let answer = client.read()
    #expect(answer?.text == "slow")
    #expect(half.read() == nil)
  }

  @Test(
    "ten thousand parked requests are all woken and ten thousand vanished clients reaped",
    .disabled(if: Alone.isAlone))
  func parksThousands() { #expect(Alone.passes("ThousandsParked")) }

  @Suite(.enabled(if: Alone.isAlone)) struct ThousandsParked {
    @Test func wakesAndReaps() throws {
      var limit = rlimit()
      getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
      limit.rlim_cur = limit.rlim_max
      setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
      let count = min(10_000, (Int(clamping: limit.rlim_cur) - 100) / 2)
      if count < 10_000 {
        print("parking \(count) instead of 10000: descriptors are limited to \(limit.rlim_cur)")
      }
      let test = try TestServer()
      var clients = try ParkingTests().park(test, count)
      for round in 1...2 {
        test.board.publish()
        for client in clients { #expect(client.read()?.text == "woken \(round)") }
        if round == 1 {
          for client in clients { client.send("GET /wait HTTP/1.1\r\nHost: test\r\n\r\n") }
          try #require(
            TestServer.until { test.server.counts.parked == count },
            "\(test.server.counts), \(test.server.counters.running) running")
        }
      }
      for client in clients { client.send("GET /wait HTTP/1.1\r\nHost: test\r\n\r\n") }
      try #require(TestServer.until { test.server.counts.parked == count })
      clients.removeAll()
      let start = Clock.system.monotonicNanoseconds()
      #expect(TestServer.until { test.server.counts.connections == 0 })
      #expect(Clock.system.monotonicNanoseconds() - start < 2_000_000_000)
      #expect(test.board.state.withLock { $0.left } == count)
    }
  }
}
