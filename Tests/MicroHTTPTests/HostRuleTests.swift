import Platform
import Testing

@testable import MicroHTTP

/// Which `Host` and `Origin` a route with a rule answers to, over real sockets.
@Suite struct HostRuleTests {
  /// One worker, so that every connection meets the remembered answers of the one before.
  private final class Guarded {
    let server: Server

    init(_ rule: HostRule, origins: [String] = []) throws {
      var configuration = Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0))
      configuration.workers = 1
      configuration.distrustsLibrary = TestServer.distrustsLibrary
      configuration.crossOrigin.origins = origins
      server = try Server(configuration)
      let known = SharedResponse(status: 304, type: nil, varying: .init("ETag", width: 3), body: ByteBuffer())
      try server.start([
        Route(.get, "/guarded", operation: "get") { _ in .respond(.text("secret")) }.answering(only: rule),
        Route(.put, "/guarded", operation: "put", body: .collected(limit: 100, types: [])) { _ in
          .respond(.text("done"))
        }.answering(only: rule),
        Route(.get, "/known", operation: "known") { _ in .respond(known.response("\"a\"")) }
          .answering(only: rule),
        Route(.get, "/open", operation: "open") { _ in .respond(.text("open")) },
      ])
    }

    deinit { server.shutDown(withinSeconds: 5) }

    func ask(
      _ method: String = "GET", _ path: String = "/guarded", host: String?, headers: [String] = [],
      version: String = "1.1"
    ) throws -> RawClient.Answer {
      let client = try #require(RawClient(port: server.port))
      let lines = ([host.map { "Host: \($0)" }].compactMap { $0 } + headers).map { $0 + "\r\n" }.joined()
      client.send("\(method) \(path) HTTP/\(version)\r\n\(lines)\r\n")
      return try #require(client.read(head: method == "HEAD"))
    }
  }

  private static let advice = "Use --some-flag."

  @Test(
    "a guarded route answers to loopback hosts with any port, in any case of their letters",
    arguments: [
      "127.0.0.1", "127.0.0.1:8080", "127.255.3.4:1", "localhost", "LocalHost:99", "[::1]", "[::1]:8080",
    ])
  func loopback(host: String) throws {
    let guarded = try Guarded(HostRule(advice: Self.advice))
    for method in ["GET", "HEAD", "PUT"] { #expect(try guarded.ask(method, host: host).status == 200) }
    #expect(try guarded.ask("OPTIONS", host: host).status == 204)
  }

  @Test(
    "every other Host is refused with any method, and the problem names the flag",
    arguments: [
      "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
      "127.0.0.1:80:80",
      "127.0.0", "127.0.0.1.1", "127.0.0.256", "127.0.0.0001", "1127.0.0.1", "0.0.0.0:8080", "128.0.0.1",
      "[::2]", "[::1",
      "[::1]x", "[127.0.0.1]", "[localhost]", "127.0.0.1:port", "user@localhost", "::1", ":80", "xlocalhost",
    ])
  func others(host: String) throws {
    let guarded = try Guarded(
      HostRule(names: ["demo.test"], origins: [], advice: Self.advice), origins: ["*"])
    for method in ["GET", "PUT"] {
      let answer = try guarded.ask(method, host: host)
      #expect(answer.status == 403 && answer.text.contains("host_not_allowed"))
      #expect(answer.text.contains("--some-flag") && !answer.text.contains("secret"))
    }
    for method in ["HEAD", "OPTIONS", "DELETE"] { #expect(try guarded.ask(method, host: host).status == 403) }
    let preflight = try guarded.ask(
      "OPTIONS", host: host, headers: ["Origin: http://\(host)", "Access-Control-Request-Method: PUT"])
    #expect(preflight.status == 403 && preflight.header("Access-Control-Allow-Methods") == nil)
    #expect(try guarded.ask("GET", "/open", host: host).status == 200, "other routes are not guarded")
  }

  @Test("names that the operator gave are answered, with any port and in any case")
  func names() throws {
    let guarded = try Guarded(HostRule(names: ["Demo.Test", "10.0.0.5"], advice: Self.advice))
    for host in ["demo.test", "DEMO.test:81", "10.0.0.5:8080"] {
      #expect(try guarded.ask(host: host).status == 200)
    }
    for host in ["demo.test.evil", "a.demo.test", "demo.tes"] {
      #expect(try guarded.ask(host: host).status == 403)
    }
  }

  @Test("a request of HTTP/1.0 without a Host is refused")
  func noHost() throws {
    let guarded = try Guarded(HostRule(advice: Self.advice))
    #expect(try guarded.ask(host: nil, version: "1.0").status == 403)
    #expect(try guarded.ask("GET", "/open", host: nil, version: "1.0").status == 200)
  }

  @Test("an answer that is known is not given again to another Host")
  func repeated() throws {
    let guarded = try Guarded(HostRule(advice: Self.advice))
    let known = ["If-None-Match: \"a\""]
    for _ in 0..<3 {
      #expect(try guarded.ask("GET", "/known", host: "127.0.0.1", headers: known).status == 304)
      #expect(try guarded.ask("GET", "/known", host: "128.0.0.1", headers: known).status == 403)
    }
  }

  @Test("a refused request's body is not waited for")
  func body() throws {
    let guarded = try Guarded(HostRule(advice: Self.advice))
    let answer = try guarded.ask("PUT", host: "evil.example", headers: ["Content-Length: 90"])
    #expect(answer.status == 403 && answer.header("Connection")?.lowercased() == "close")
  }

  @Test("where origins are looked at, the service's own and those allowed are answered, and no other")
  func origins() throws {
    let rule = HostRule(origins: ["https://app.example", "*"], advice: Self.advice)
    let guarded = try Guarded(rule, origins: ["https://app.example", "*"])
    let own = "127.0.0.1:8080"
    for origin in ["http://127.0.0.1:8080", "https://127.0.0.1:8080", "https://app.example"] {
      #expect(try guarded.ask(host: own, headers: ["Origin: \(origin)"]).status == 200)
    }
    let others = ["http://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:9", "", "http://"]
    for origin in others {
      for method in ["GET", "PUT"] {
        let answer = try guarded.ask(method, host: own, headers: ["Origin: \(origin)"])
        #expect(answer.status == 403 && answer.text.contains("origin_not_allowed"), "\(origin)")
      }
      let preflight = try guarded.ask(
        "OPTIONS", host: own, headers: ["Origin: \(origin)", "Access-Control-Request-Method: GET"])
      #expect(preflight.status == 403 && preflight.header("Access-Control-Allow-Methods") == nil)
    }
    let unlooked = try Guarded(HostRule(advice: Self.advice))
    #expect(try unlooked.ask(host: own, headers: ["Origin: http://evil.example"]).status == 200)
  }
}
