import Glibc
import MicroHTTP
import Platform
import TestFolders
import Testing

@Suite struct AnswerTests {
  @Test("an origin that is allowed gets the CORS headers, another gets none, and a preflight is a 204")
  func crossesOrigins() throws {
    let test = try TestServer { $0.crossOrigin.origins = ["https://a.example"] }
    let client = try test.client()
    let allowed = try #require(client.get("/hello", headers: ["Origin: https://a.example"]))
    #expect(allowed.header("Access-Control-Allow-Origin") == "https://a.example")
    #expect(allowed.header("Access-Control-Expose-Headers")?.contains("ETag") == true)
    #expect(allowed.header("Vary") == "Origin")
    let other = try #require(client.get("/hello", headers: ["Origin: https://b.example"]))
    #expect(other.status == 200 && other.header("Access-Control-Allow-Origin") == nil)
    let preflight = try #require(
      client.get(
        "/hello", method: "OPTIONS",
        headers: ["Origin: https://a.example", "Access-Control-Request-Method: GET"]))
    #expect(preflight.status == 204)
    #expect(preflight.header("Access-Control-Allow-Methods") == "GET, HEAD, OPTIONS")
    #expect(preflight.header("Access-Control-Allow-Headers")?.contains("Authorization") == true)
    let refused = try #require(
      client.get(
        "/hello", method: "OPTIONS",
        headers: ["Origin: https://b.example", "Access-Control-Request-Method: GET"]))
    #expect(refused.header("Access-Control-Allow-Methods") == nil)
    let shared = try #require(client.get("/shared", headers: ["Origin: https://a.example"]))
    #expect(shared.header("Access-Control-Allow-Origin") == "https://a.example")
  }

  @Test("a page of an allowed origin sees that a path is not there, or not yet: its preflight passes")
  func preflightOfNothing() throws {
    let test = try TestServer { $0.crossOrigin.origins = ["https://a.example"] }
    let client = try test.client()
    for problem in [nil, Problem(503, "starting", detail: "ask again")] {
      test.server.serve([], otherwise: problem)
      let preflight = try #require(
        client.get(
          "/none", method: "OPTIONS",
          headers: ["Origin: https://a.example", "Access-Control-Request-Method: GET"]))
      #expect(preflight.status == 204 && preflight.header("Access-Control-Allow-Methods") != nil)
      let answer = try #require(client.get("/none", headers: ["Origin: https://a.example"]))
      #expect(answer.status == problem?.status ?? 404)
      #expect(answer.header("Access-Control-Allow-Origin") == "https://a.example")
    }
  }

  @Test("each answer from a shared body has its own request id, from all workers at once")
  func stampsSharedBodies() throws {
    let test = try TestServer()
    let ids = Guarded(Set<String>())
    let threads = (0..<6).map { number in
      Thread("reader") {
        // Without a connection there are too few ids below, and the test fails there.
        guard let client = try? test.client(source: 2 + number) else { return }
        for _ in 0..<500 {
          guard let answer = client.get("/shared"), answer.text == "{\"shared\":true}",
            answer.header("ETag") == "\"s\"",
            let id = answer.header("X-Request-Id")
          else { return }
          ids.withLock { _ = $0.insert(id) }
        }
      }
    }
    for thread in threads { thread.join() }
    #expect(ids.withLock { $0.count } == 3000)
    #expect(try test.client().get("/shared", headers: ["X-Request-Id: own"])?.header("X-Request-Id") == "own")
  }

  @Test("each answer without a body has its own tag and request id, from all workers at once")
  func stampsTags() throws {
    let test = try TestServer()
    let wrong = Guarded<[String]>([])
    let threads = (0..<4).map { number in
      Thread("reader") {
        do {
          let client = try test.client(source: 2 + number)
          for turn in 0..<500 {
            let tag = "\(100 + (number * 217 + turn) % 900)"
            let answer = client.get("/known/\(tag)")
            guard answer?.status == 304, answer?.header("ETag") == "\"\(tag)\"", answer?.text == "",
              answer?.header("Vary") == "Accept", answer?.header("Content-Type") == nil,
              answer?.header("X-Request-Id")?.count == 16
            else {
              wrong.withLock { $0.append("\(tag): \(answer.map { "\($0)" } ?? "nothing")") }
              return
            }
          }
        } catch { wrong.withLock { $0.append("\(error)") } }
      }
    }
    for thread in threads { thread.join() }
    #expect(wrong.withLock { $0 } == [])
    let own = try test.client().get("/known/abc", headers: ["X-Request-Id: own"])
    #expect(own?.header("X-Request-Id") == "own" && own?.header("ETag") == "\"abc\"")
  }

  @Test("a log that nobody reads holds up neither requests nor the end; what is read later is whole lines")
  func stalledLog() throws {
    var ends: [Int32] = [0, 0]
    pipe(&ends)
    let test = try TestServer { [ends] in $0.accessLog = ends[1] }
    let client = try test.client()
    for _ in 0..<7000 { #expect(client.get("/hello")?.status == 200) }
    let began = Clock.system.monotonicNanoseconds()
    test.server.shutDown(withinSeconds: 1)
    #expect(Clock.system.monotonicNanoseconds() - began < 10_000_000_000)
    close(ends[1])
    var text: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 65_536)
    while case let count = read(ends[0], &room, room.count), count > 0 { text += room[..<count] }
    close(ends[0])
    let lines = text.split(separator: UInt8(ascii: "\n"))
    #expect(lines.count > 200 && text.last == UInt8(ascii: "\n"))
    #expect(lines.allSatisfy { $0.starts(with: #"{"at":"#.utf8) && $0.last == UInt8(ascii: "}") })
  }

  @Test("the access log has a line per request with the route's template and without the query")
  func logsAccess() throws {
    var ends: [Int32] = [0, 0]
    pipe(&ends)
    var text = ""
    do {
      let test = try TestServer { [ends] in $0.accessLog = ends[1] }
      let client = try test.client()
      _ = client.get("/count?secret=1", headers: ["traceparent: 00-ab-cd-01", "X-Request-Id: mine"])
      _ = client.get("/nothing")
      _ = client.get("/items/private/parts/too")
      #expect(TestServer.until { test.server.counters.running == 0 })
      test.server.shutDown(withinSeconds: 1)
    }
    var room = [UInt8](repeating: 0, count: 65_536)
    let count = read(ends[0], &room, room.count)
    text = String(decoding: room[..<max(0, count)], as: UTF8.self)
    close(ends[0])
    close(ends[1])
    let lines = text.split(separator: "\n")
    #expect(lines.count == 3)
    #expect(
      lines[0].contains(#""method":"GET","route":"/count","operation":"count","status":200,"bytes":1,"us":"#))
    #expect(lines[0].hasSuffix(#""request_id":"mine","user":"alice","traceparent":"00-ab-cd-01"}"#))
    #expect(lines[1].contains(#""route":null,"status":404"#))
    #expect(lines[2].contains(#""route":"/items/{item}/parts/{part}""#))
    #expect(!text.contains("secret") && !text.contains("private"))
  }

  @Test("listening addresses are read with names, IPv4 and IPv6, and a busy port says so")
  func readsAddresses() throws {
    #expect(ListenAddress("127.0.0.1:8080") == ListenAddress(host: "127.0.0.1", port: 8080))
    #expect(ListenAddress("[::1]:0") == ListenAddress(host: "::1", port: 0))
    #expect(ListenAddress("localhost:80")?.host == "localhost")
    for bad in ["", "8080", ":80", "::1:80", "a:70000", "a:-1", "a:"] {
      #expect(ListenAddress(bad) == nil, "\(bad)")
    }
    let test = try TestServer()
    let second = try Server(Configuration(listen: ListenAddress(host: "127.0.0.1", port: test.server.port)))
    #expect(throws: ServerError.self) { try second.start([]) }
  }

  @Test("a certificate and its key make it speak TLS, and a missing file says so")
  func speaksTLS() throws {
    let directory = TestFolder.make("tls")
    let (key, certificate) = (directory + "/key.pem", directory + "/certificate.pem")
    _ = output(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        + "-keyout \(key) -out \(certificate) 2>&1")
    let test = try TestServer { $0.tls = CertificateFiles(certificate: certificate, key: key) }
    let port = test.server.port
    #expect(
      output(
        "curl -s --cacert \(certificate) --resolve localhost:\(port):127.0.0.1 https://localhost:\(port)/hello"
      ) == "hello")
    let unreadable = output("curl -sk -i -H 'Content-Length: x' https://127.0.0.1:\(port)/hello")
    #expect(unreadable.isEmpty, "a length that cannot be read ends the connection: \(unreadable)")
    #expect(output("curl -sk https://127.0.0.1:\(port)/hello") == "hello")
    var configuration = Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0))
    configuration.tls = CertificateFiles(certificate: directory + "/none.pem", key: key)
    let other = try Server(configuration)
    #expect(throws: ServerError.self) { try other.start([]) }
    for file in [key, certificate] { unlink(file) }
    rmdir(directory)
  }

  private func output(_ command: String) -> String {
    guard let pipe = popen(command, "r") else { return "" }
    defer { pclose(pipe) }
    var room = [UInt8](repeating: 0, count: 4096)
    return String(decoding: room[..<fread(&room, 1, 4096, pipe)], as: UTF8.self)
  }
}
