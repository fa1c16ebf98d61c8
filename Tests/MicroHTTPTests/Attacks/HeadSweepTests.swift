import Glibc
import Platform
import Testing

@testable import MicroHTTP

/// The ways to make a request head of a certain size.
enum HeadShape: String, CaseIterable, Sendable {
  case oneHeader, headersOf20, headersOf500, target, query, parameters, cookie, cookies, emptyLines

  /// A complete head of about `size` bytes.
  func head(_ size: Int) -> String {
    let room = max(0, size - 40)
    func text(_ count: Int) -> String { String(repeating: "a", count: max(1, count)) }
    switch self {
    case .oneHeader: return request("/hello", "X-A: \(text(room - 7))\r\n")
    case .headersOf20: return request("/hello", String(repeating: "X-Abc: 01234567890\r\n", count: room / 20))
    case .headersOf500:
      return request("/hello", String(repeating: "X-Abc: \(text(491))\r\n", count: room / 500))
    case .target: return request("/hello/" + text(room))
    case .query: return request("/hello?q=" + text(room))
    case .parameters: return request("/hello?" + String(repeating: "abc=1234&", count: room / 9))
    case .cookie: return request("/hello", "Cookie: a=\(text(room - 12))\r\n")
    case .cookies: return request("/hello", "Cookie: " + String(repeating: "a=b; ", count: room / 5) + "\r\n")
    case .emptyLines: return String(repeating: "\r\n", count: room / 2) + request("/hello")
    }
  }

  private func request(_ target: String, _ headers: String = "") -> String {
    "GET \(target) HTTP/1.1\r\nHost: test\r\n\(headers)\r\n"
  }

  /// The largest size that is certainly answered with a page.
  var served: Int {
    switch self {
    case .oneHeader: 6100
    case .headersOf20: 1400
    case .headersOf500: 5000
    case .target, .query, .parameters: 5000
    case .cookie, .cookies: 0
    case .emptyLines: 5000
    }
  }
}

@Suite struct HeadSweepTests {
  enum Manner: String, CaseIterable, Sendable { case whole, withFIN, byteWise }

  @Test(
    "heads of every size and shape get a page or a problem at once (B54)", arguments: HeadShape.allCases)
  func answersAll(_ shape: HeadShape) throws {
    let distrusts = TestServer.distrustsLibrary
    let test = try TestServer()
    for size in stride(from: 100, through: 20_000, by: distrusts ? 610 : 110) {
      try check(test, shape, size, .whole)
      try check(test, shape, size + 1, .withFIN)
    }
    // Around the sizes where the connection's memory ends, each byte counts.
    for size in stride(from: 6_500, through: 7_700, by: distrusts ? 61 : 11) {
      try check(test, shape, size, .whole)
    }
    for size in distrusts ? [700] : [700, 7_200, 7_700] { try check(test, shape, size, .byteWise) }
    #expect(try test.client().get("/hello")?.status == 200)
    #expect(TestServer.until { test.server.counters.running == 0 && test.server.counts.connections == 0 })
  }

  private func check(_ test: TestServer, _ shape: HeadShape, _ size: Int, _ manner: Manner) throws {
    let client = try test.client()
    let began = Clock.system.monotonicNanoseconds()
    let bytes = Array(shape.head(size).utf8)
    if manner == .byteWise {
      for byte in bytes where !client.send([byte]) { break }
    } else {
      client.send(bytes)
    }
    if manner == .withFIN { client.endSending() }
    let answer = client.read()
    let took = (Clock.system.monotonicNanoseconds() - began) / 1_000_000
    let comment: Comment = "\(shape) of \(size) bytes, \(manner): \(answer?.status ?? 0) after \(took) ms"
    let allowed = shape == .target ? [404, 414, 431] : [200, 414, 431]
    #expect(allowed.contains(answer?.status ?? 0), comment)
    #expect(took < 1_000, comment)
    // A library that takes queries apart has room for fewer items.
    let served = test.server.knowsLibrary || shape != .parameters ? shape.served : 800
    if size <= served { #expect(answer?.status == (shape == .target ? 404 : 200), comment) }
    if let answer, answer.status > 404 {
      #expect(answer.header("Content-Type") == "application/problem+json", comment)
      #expect(answer.text.contains("\"status\":\(answer.status)"), comment)
    }
  }

  @Test(
    "a request line without spaces is a 400, on a new connection and on one that was used",
    .disabled(if: TestServer.distrustsLibrary, "Such a connection is closed without an answer."),
    arguments: ["GET\t/hello\tHTTP/1.1", "GET", "GET\t/hello", " /hello HTTP/1.1", "\u{16}\u{3}\u{1}"])
  func answersLines(_ line: String) throws {
    let test = try TestServer()
    for isUsed in [false, true] {
      let client = try test.client()
      if isUsed { #expect(client.get("/hello")?.status == 200) }
      client.send(line + "\r\nHost: test\r\n\r\n")
      let answer = client.read()
      #expect(answer?.status == 400)
      #expect(answer?.header("Content-Type") == "application/problem+json")
      #expect(client.read() == nil && !client.isTimedOut)
    }
    #expect(try test.client().get("/hello")?.status == 200)
  }

  @Test("connections that end without a request are closed without a word")
  func staysSilent() throws {
    let test = try TestServer {
      $0.limits.headSeconds = 1
      $0.limits.idleSeconds = 1
    }
    let (idle, used, last) = (try test.client(), try test.client(), try test.client())
    #expect(used.get("/hello")?.status == 200)
    #expect(last.get("/hello", headers: ["Connection: close"])?.status == 200)
    for client in [idle, used, last] { #expect(client.isClosed) }
    let left = try test.client()
    left.send("GE")
    left.endSending()
    #expect(left.isClosed)
  }

  @Test("an answer whose headers do not fit beside the request's loses the header that is not needed")
  func degrades() throws {
    let test = try TestServer()
    func ask(_ headerBytes: Int, link: Int) throws -> RawClient.Answer? {
      let long = "X-Long: " + String(repeating: "a", count: headerBytes)
      return try test.client().get("/links?\(link)", headers: [long])
    }
    #expect(try ask(10, link: 3000)?.header("Link")?.count == 3000)
    let tight = try #require(try ask(6000, link: 3000))
    #expect(tight.status == 200 && tight.header("Link") == nil && tight.header("X-After") == "1")
    // A link longer than the whole pool.
    #expect(try ask(10, link: 8000)?.header("Link") == nil)
  }

  @Test("an answer whose headers do not fit at all is a 431, not silence")
  func refusesTooLargeAnswers() throws {
    let test = try TestServer()
    for method in ["GET", "HEAD"] {
      let client = try test.client()
      client.send("\(method) /large HTTP/1.1\r\nHost: test\r\n\r\n")
      #expect(client.read(head: method == "HEAD")?.status == 431)
      #expect(client.isClosed)
    }
    #expect(TestServer.until { test.server.counters.refusals(.head) == 2 })
  }
}
