import Glibc
import MicroHTTP
import Platform
import Testing

@Suite struct BadRequestTests {
  private static func play(_ bad: BadRequest, _ client: RawClient) -> RawClient.Answer? {
    client.send(bad.bytes)
    if bad.endsSending { client.endSending() }
    return client.read()
  }

  @Test("a bad request gets its status or a closed connection", arguments: BadRequest.corpus)
  func answers(_ bad: BadRequest) throws {
    let test = try TestServer { configuration in
      configuration.limits.headSeconds = 1
      configuration.limits.bodySeconds = 1
    }
    let client = try test.client()
    let answer = BadRequestTests.play(bad, client)
    #expect(!client.isTimedOut)
    // Only with the known version does the server answer request lines for which the library closes in
    // silence.
    let isSilent = TestServer.distrustsLibrary && answer == nil && bad.allowed.contains(400)
    #expect(
      isSilent || bad.allowed.contains(answer?.status ?? 0),
      "\(answer.map { "\($0.status) \($0.text)" } ?? "closed")")
    if let answer, answer.status >= 400 {
      #expect(answer.header("Content-Type") == "application/problem+json")
      #expect(answer.header("X-Request-Id") != nil)
      #expect(answer.header("Server") == "perch")
      #expect(answer.text.contains("\"status\":\(answer.status)"))
    }
    if answer?.status == 400 { #expect(client.read() == nil) }
    #expect(try test.client().get("/hello")?.status == 200)
  }

  @Test("the corpus is large enough")
  func isLarge() { #expect(BadRequest.corpus.count >= 60) }

  @Test("a head that comes one byte at a time is cut off in time, and so is a body")
  func cutsTrickles() throws {
    let test = try TestServer { configuration in
      configuration.limits.headSeconds = 1
      configuration.limits.bodySeconds = 1
    }
    let start = Clock.system.monotonicNanoseconds()
    for text in [
      "GET /hello HTTP/1.1\r\nX: ", "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n",
    ] {
      let client = try test.client()
      client.send(text)
      var sent = 0
      while sent < 200, client.send("a"), client.isQuiet {
        usleep(20_000)
        sent += 1
      }
      #expect(sent < 200)
    }
    #expect(Clock.system.monotonicNanoseconds() - start < 6_000_000_000)
    #expect(try test.client().get("/hello")?.status == 200)
  }

  @Test("a client that leaves in the middle of its request is let go long before the deadline")
  func letsGo() throws {
    let test = try TestServer()
    for bad in BadRequest.corpus where bad.endsSending { try test.client().send(bad.bytes) }
    let start = Clock.system.monotonicNanoseconds()
    #expect(TestServer.until { test.server.counts.connections == 0 })
    #expect(Clock.system.monotonicNanoseconds() - start < 3_000_000_000)
  }

  @Test(
    "requests that are split anywhere or pipelined are answered in order",
    .disabled(if: TestServer.distrustsLibrary, "A connection closes after a request with a body."))
  func splitsAndPipelines() throws {
    let test = try TestServer()
    let request = Array("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc".utf8)
    let client = try test.client()
    for offset in stride(from: 1, to: request.count, by: 7) {
      client.send(Array(request[..<offset]))
      usleep(200)
      client.send(Array(request[offset...]))
      #expect(client.read()?.text == "abc")
    }
    client.send(Array([[UInt8]](repeating: request, count: 50).joined()))
    for _ in 0..<50 { #expect(client.read()?.text == "abc") }
  }

  @Test(
    "a thousand rounds of the corpus leave no descriptor, no connection and no memory behind",
    .disabled(if: Alone.isAlone))
  func leavesNothing() { #expect(Alone.passes("CorpusRounds")) }

  @Suite(.enabled(if: Alone.isAlone)) struct CorpusRounds {
    @Test func thousandRounds() throws {
      let test = try TestServer { configuration in
        configuration.limits.headSeconds = 1
        configuration.limits.bodySeconds = 1
      }
      #expect(try test.client().get("/hello")?.status == 200)
      #expect(TestServer.until { test.server.counts.connections == 0 })
      let descriptors = Alone.settledDescriptors
      // The heap grows for the connections that stay until their deadline, and then no more.
      try round(test, 300)
      let memory = Alone.anonymousBytes
      try round(test, 1000)
      #expect(TestServer.until { test.server.counts.connections == 0 })
      #expect(test.server.counters.running == 0)
      #expect(Alone.settledDescriptors == descriptors)
      if Alone.isSanitized { return }
      #expect(Alone.anonymousBytes - memory < 1_048_576, "\(Alone.anonymousBytes - memory) bytes more")
      #expect(try test.client().get("/hello")?.status == 200)
    }

    private func round(_ test: TestServer, _ count: Int) throws {
      for number in 0..<count {
        for bad in BadRequest.corpus {
          let client = try test.client(source: 2 + number % 100)
          client.send(bad.bytes)
          if bad.endsSending { continue }
          _ = client.readSome()
          if client.isTimedOut {
            Issue.record("\(bad.name) in round \(number)")
            return
          }
        }
      }
      #expect(TestServer.until { test.server.counts.connections == 0 })
    }
  }
}
