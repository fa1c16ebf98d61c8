import Glibc
import Platform
import Synchronization
import Testing

@testable import MicroHTTP

/// Answers that are given again to the same request, without a handler.
@Suite struct RepeatableAnswerTests {
  /// One worker, so that all connections share its remembered answers; `/known/{tag}` counts its handler's
  /// calls.
  private final class Setting: Sendable {
    let server: Server
    let calls = Atomic<Int>(0)
    let isCurrent = Atomic<Bool>(true)
    let log: Int32

    init() throws {
      var configuration = Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0))
      configuration.workers = 1
      var ends: [Int32] = [0, 0]
      pipe(&ends)
      log = ends[0]
      configuration.accessLog = ends[1]
      server = try Server(configuration)
      try server.start([route])
    }

    deinit { server.shutDown(withinSeconds: 5) }

    var route: Route {
      let shared = SharedResponse(
        status: 304, type: nil, varying: .init("ETag", width: 5), body: ByteBuffer())
      return Route(.get, "/known/{tag}", operation: "known") { [unowned self] request in
        calls.add(1, ordering: .relaxed)
        request.user = "alice"
        return .respond(
          shared.response("\"\(request.parameter(0))\"") { self.isCurrent.load(ordering: .relaxed) })
      }
    }

    var count: Int { calls.load(ordering: .relaxed) }

    func client() throws -> RawClient { try #require(RawClient(port: server.port)) }
  }

  private let known = "If-None-Match: one"

  @Test("the same question is answered without its handler, on every connection, as long as the answer holds")
  func again() throws {
    let setting = try Setting()
    let client = try setting.client()
    var ids: Set<String> = []
    for _ in 0..<10 {
      let answer = try #require(client.get("/known/abc", headers: ["If-None-Match: one"]))
      #expect(answer.status == 304 && answer.header("ETag") == "\"abc\"")
      ids.insert(answer.header("X-Request-Id") ?? "")
    }
    #expect(setting.count == 1 && ids.count == 10)
    #expect(try setting.client().get("/known/abc", headers: ["If-None-Match: one"])?.status == 304)
    #expect(setting.count == 1)
    setting.isCurrent.store(false, ordering: .relaxed)
    for _ in 0..<3 { #expect(client.get("/known/abc", headers: ["If-None-Match: one"])?.status == 304) }
    #expect(setting.count == 4)
    setting.isCurrent.store(true, ordering: .relaxed)
    for _ in 0..<3 { #expect(client.get("/known/abc", headers: ["If-None-Match: one"])?.status == 304) }
    #expect(setting.count == 4, "the last was remembered, and holds")
  }

  @Test("one byte more, less or other is another question")
  func others() throws {
    let setting = try Setting()
    let client = try setting.client()
    let questions: [(path: String, headers: [String])] = [
      ("/known/abc", ["If-None-Match: one"]), ("/known/abc", ["If-None-Match: two"]),
      ("/known/abd", ["If-None-Match: one"]),
      ("/known/abc", ["If-None-Match: one "]), ("/known/abc", ["if-none-match: one"]),
      ("/known/abc", ["If-None-Match:one"]),
      ("/known/abc", ["If-None-Match: "]), ("/known/abc?", ["If-None-Match: one"]),
      ("/known/abc?a=b", ["If-None-Match: one"]),
      ("/known/abc?a&b", ["If-None-Match: one"]), ("/known/abc", ["If-None-Match: one", "Other: 1"]),
      ("http://test/known/abc", ["If-None-Match: one"]),
    ]
    for turn in 1...2 {
      for question in questions {
        let answer = client.get(question.path, headers: question.headers)
        #expect(answer?.status == 304 && answer?.header("ETag")?.hasPrefix("\"ab") == true)
      }
      #expect(setting.count == questions.count, "turn \(turn)")
    }
    #expect(client.get("/known/abc", method: "HEAD", headers: ["If-None-Match: one"])?.status == 304)
    #expect(
      client.get("/known/abc", method: "POST", headers: ["If-None-Match: one"], body: "")?.status == 405)
    #expect(setting.count == questions.count + 1)
  }

  @Test("who does not say what it has is answered by the handler")
  func unconditional() throws {
    let setting = try Setting()
    let client = try setting.client()
    for _ in 0..<3 { #expect(client.get("/known/abc")?.status == 304) }
    #expect(setting.count == 3)
  }

  @Test("a question with a body is never remembered, nor one with a very long head")
  func notKept() throws {
    let setting = try Setting()
    let client = try setting.client()
    for _ in 0..<3 { #expect(client.get("/known/abc", headers: [known], body: "xy")?.status == 304) }
    #expect(setting.count == 3)
    let long = "Long: " + String(repeating: "x", count: 2048)
    for _ in 0..<3 { #expect(client.get("/known/abc", headers: [known, long])?.status == 304) }
    #expect(setting.count == 6)
  }

  @Test("bytes that the library makes the same of are not the same question")
  func zeroBytes() throws {
    let setting = try Setting()
    let (line, headers) = ("GET /known/abc?a=b&c HTTP/1.1\r\n", "Host: test\r\nIf-None-Match: one")
    let good = line + headers + "\r\n\r\n"
    let bad = [
      good.replacing("?", with: "\0"), good.replacing("=", with: "\0"), good.replacing("&", with: "\0"),
      line.replacing(" HTTP", with: "\0HTTP") + headers + "\r\n\r\n", line + headers + "\n\r\n",
      good.replacing("If-None-Match: ", with: "If-None-Match\0 "),
      line + "Host: test\0\0If-None-Match\0 one\r\n\r\n",
    ]
    for text in bad {
      let fresh = try setting.client()
      fresh.send(text)
      let expected = fresh.read()?.status
      let client = try setting.client()
      client.send(good)
      #expect(client.read()?.status == 304)
      client.send(text)
      #expect(client.read()?.status == expected && expected != 304, "\(text.debugDescription)")
    }
  }

  @Test("other routes are asked anew")
  func otherRoutes() throws {
    let setting = try Setting()
    let client = try setting.client()
    for _ in 0..<2 { #expect(client.get("/known/abc", headers: [known])?.status == 304) }
    setting.server.serve([])
    #expect(client.get("/known/abc", headers: [known])?.status == 404)
    setting.server.serve([setting.route])
    #expect(client.get("/known/abc", headers: [known])?.status == 304)
    #expect(setting.count == 2)
  }

  @Test("more questions than are remembered are answered as well")
  func many() throws {
    let setting = try Setting()
    let client = try setting.client()
    for number in 1000...9999 where number % 2 == 0 {
      #expect(client.get("/known/abc?\(number)", headers: [known])?.status == 304)
    }
    let first = setting.count
    #expect(first == 4500)
    for number in 9900...9998 where number % 2 == 0 {
      _ = client.get("/known/abc?\(number)", headers: [known])
    }
    #expect(setting.count < first + 25, "most of the latest are remembered")
  }

  @Test("the access log tells of each the same")
  func logged() throws {
    let setting = try Setting()
    let client = try setting.client()
    for _ in 0..<3 { _ = client.get("/known/abc", headers: [known, "traceparent: 00-1-2-00"]) }
    setting.server.shutDown(withinSeconds: 5)
    var room = [UInt8](repeating: 0, count: 65_536)
    let count = read(setting.log, &room, room.count)
    let lines = String(decoding: room[..<max(0, count)], as: UTF8.self).split(separator: "\n")
    #expect(lines.count == 3)
    for line in lines {
      #expect(line.contains(#""route":"/known/{tag}","operation":"known","status":304,"bytes":0"#))
      #expect(line.contains(#""user":"alice","traceparent":"00-1-2-00""#))
    }
  }
}
