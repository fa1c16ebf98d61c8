import Glibc
import Platform
import Testing

@testable import MicroHTTP

/// With a libmicrohttpd whose memory layout is not known, the server is slower but answers as correctly.
@Suite struct UnknownLibraryTests {
  private func server(_ change: (inout Configuration) -> Void = { _ in }) throws -> TestServer {
    try TestServer {
      $0.distrustsLibrary = true
      change(&$0)
    }
  }

  @Test("the layout of the version that is loaded is known, and the trial says so")
  func knowsThisVersion() {
    #expect(LibraryCheck.version == LibraryCheck.knownVersion)
    #expect(LibraryTrial.run(measures: true) == .init())
    #expect(LibraryCheck.verdict == .known)
  }

  @Test("another version, a trial that fails, and a library that cannot be judged are told apart")
  func judges() throws {
    let all = LibraryTrial.Findings()
    let version = LibraryCheck.knownVersion
    #expect(LibraryCheck.judge(version: version, all) == .known)
    let others = LibraryTrial.run(measures: false)
    #expect(others.publicGuardJudges && !others.measuringGuardJudges && !others.sendsOverwrittenHeaders)
    guard case .unknown = LibraryCheck.judge(version: "1.0.1", others) else {
      Issue.record("another version is not known")
      return
    }
    for findings in [
      LibraryTrial.Findings(measuringGuardJudges: false),
      LibraryTrial.Findings(sendsOverwrittenHeaders: false),
      LibraryTrial.Findings(refusalsArrive: false),
    ] {
      guard case .unknown = LibraryCheck.judge(version: version, findings) else {
        Issue.record("\(findings) is not known")
        return
      }
    }
    let blind = LibraryCheck.judge(version: version, .init(publicGuardJudges: false))
    #expect(throws: ServerError.self) { try LibraryCheck.require(blind) }
  }

  @Test("a bad request gets its status or a closed connection (B54)", arguments: BadRequest.corpus)
  func refuses(_ bad: BadRequest) throws {
    let test = try server {
      $0.limits.headSeconds = 1
      $0.limits.bodySeconds = 1
    }
    let client = try test.client()
    client.send(bad.bytes)
    if bad.endsSending { client.endSending() }
    let answer = client.read()
    #expect(!client.isTimedOut)
    // Only with the known version does the server answer request lines for which the library closes in
    // silence.
    let isAllowed = bad.allowed.contains(answer?.status ?? 0) || answer == nil && bad.allowed.contains(400)
    #expect(isAllowed, "\(answer.map { "\($0.status) \($0.text)" } ?? "closed")")
    if let answer, answer.status >= 400 {
      #expect(answer.header("Content-Type") == "application/problem+json")
      #expect(answer.header("X-Request-Id") != nil && answer.header("Server") == "perch")
    }
    #expect(try test.client().get("/hello")?.status == 200)
  }

  @Test("pages, problems, headers, queries and files are answered as ever, on one connection")
  func answers() throws {
    let test = try server()
    let client = try test.client()
    for _ in 0..<3 {
      let answer = try #require(client.get("/hello"))
      #expect(answer.text == "hello" && answer.header("Server") == "perch")
      #expect(answer.headers.filter { $0.name == "X-Content-Type-Options" }.map(\.value) == ["nosniff"])
      #expect(answer.header("X-Request-Id")?.count == 16 && answer.header("Date") != nil)
    }
    #expect(client.get("/items/a%2Fb/parts/%C3%A9%20")?.text == "a/b|é ")
    #expect(client.get("/query?a=1&a=-2&b=x+y%26&&c")?.text == "a=1;1\na=-2;-2\nb=x y&;-\nc=;-")
    let problem = try #require(client.get("/problem", headers: ["X-Request-Id: mine-1"]))
    #expect(problem.status == 409 && problem.header("Retry-After") == "7")
    #expect(problem.header("X-Request-Id") == "mine-1")
    #expect(client.get("/headers?X-One=1&X-Two=two%20words&Vary=A&Vary=B")?.header("X-Two") == "two words")
    #expect(client.get("/headers?X-Evil=a%0d%0aX-B:1&X-After=1")?.header("X-B") == nil)
    #expect(client.get("/nothing")?.status == 404)
    #expect(client.get("/hello", method: "HEAD")?.header("Content-Length") == "5")
    #expect(client.get("/hello", method: "OPTIONS")?.header("Allow") == "GET, HEAD, OPTIONS")
  }

  @Test("shared answers carry each its own request id and the header that varies")
  func shares() throws {
    let test = try server()
    let client = try test.client()
    let ids = try (0..<20).map { _ in try #require(client.get("/shared")?.header("X-Request-Id")) }
    #expect(Set(ids).count == 20)
    for tag in ["abc", "xyz", "abc"] {
      let answer = client.get("/known/\(tag)", headers: ["If-None-Match: \"\(tag)\""])
      #expect(answer?.header("ETag") == "\"\(tag)\"")
    }
  }

  @Test("a request with a body is answered and its connection closed: what follows is not read")
  func closesAfterBodies() throws {
    let test = try server()
    let client = try test.client()
    let request = "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc"
    client.send(request + "GET /count HTTP/1.1\r\nHost: test\r\n\r\n")
    let answer = try #require(client.read())
    #expect(answer.text == "abc" && answer.header("Connection") == "close")
    #expect(client.read() == nil && !client.isTimedOut)
    #expect(
      try test.client().get("/form", method: "POST", headers: ["Content-Type: text/plain"], body: "x")?.status
        == 415)
  }

  @Test("requests park, are woken and park again; streams carry events")
  func parks() throws {
    let test = try server()
    let clients = try (0..<50).map { number in
      let client = try test.client(source: 2 + number % 8)
      client.send("GET /wait HTTP/1.1\r\nHost: test\r\n\r\n")
      return client
    }
    for number in 1...3 {
      try #require(TestServer.until { test.server.counts.parked == clients.count })
      test.board.publish()
      for client in clients {
        #expect(client.read()?.text == "woken \(number)")
        client.send("GET /wait HTTP/1.1\r\nHost: test\r\n\r\n")
      }
    }
    let stream = try test.client()
    stream.send("GET /events HTTP/1.1\r\nHost: test\r\n\r\n")
    #expect(stream.readHead()?.header("Content-Type") == "text/event-stream")
    #expect(stream.readChunk() == Array(":\n\n".utf8))
    test.board.publish()
    #expect(stream.readChunk().map { String(decoding: $0, as: UTF8.self) }?.contains("tick") == true)
  }
}
