import Glibc
import Platform
import Testing

@testable import MicroHTTP

/// Forms that are judged by their request's head, and the pace that they must keep.
@Suite(.timeLimit(.minutes(2))) struct UploadTests {
  private static let type = "Content-Type: multipart/form-data; boundary=b"

  private static func form(_ bytes: Int) -> String {
    "--b\r\nContent-Disposition: form-data; name=f; filename=x\r\n\r\n" + String(repeating: "x", count: bytes)
      + "\r\n--b--\r\n"
  }

  private static func head(_ length: Int, _ query: String = "", expects: Bool = false) -> String {
    "POST /upload\(query) HTTP/1.1\r\nHost: t\r\n\(type)\r\nContent-Length: \(length)\r\n"
      + (expects ? "Expect: 100-continue\r\n" : "") + "\r\n"
  }

  @Test("a form is read after its head was let in, and the connection goes on where the library is known")
  func read() throws {
    let test = try TestServer()
    let client = try test.client()
    let form = Self.form(100_000)
    for _ in 0..<(TestServer.distrustsLibrary ? 1 : 3) {
      client.send(Self.head(form.utf8.count) + form)
      #expect(client.read()?.text == "[100000]")
    }
  }

  @Test("what the head refuses is answered at once, without 100 Continue and without the body")
  func refused() throws {
    let test = try TestServer()
    for expects in [true, false] {
      let client = try test.client()
      client.send(Self.head(2_000_000, "?judge=refuse", expects: expects))
      let answer = try #require(client.read())
      #expect(answer.status == 403 && answer.header("Connection") == "close", "\(answer)")
    }
    let client = try test.client()
    client.send(Self.head(4_000_000, expects: true))
    #expect(client.read()?.status == 413)
    let other = try test.client()
    other.send(
      "POST /upload HTTP/1.1\r\nHost: t\r\nContent-Type: multipart/form-data\r\nContent-Length: 5\r\n\r\n")
    #expect(other.read()?.status == 400)
  }

  @Test("a judge may park: no byte is asked for before it lets the form in", arguments: [true, false])
  func parked(expects: Bool) throws {
    let test = try TestServer()
    let client = try test.client()
    let form = Self.form(50_000)
    client.send(Self.head(form.utf8.count, "?judge=wait", expects: expects))
    if !expects { client.send(form) }
    #expect(TestServer.until { test.server.counts.parked == 1 })
    test.board.publish()
    if expects {
      #expect(client.readHead()?.status == 100)
      client.send(form)
    }
    #expect(client.read()?.text == "[50000]")
  }

  @Test("a client that leaves while its form is judged is given up")
  func left() throws {
    let test = try TestServer()
    do {
      let client = try test.client()
      client.send(Self.head(1000, "?judge=wait"))
      #expect(TestServer.until { test.server.counts.parked == 1 })
    }
    #expect(TestServer.until { test.board.state.withLock { $0.left } == 1 })
    #expect(TestServer.until { test.server.counters.running == 0 })
  }

  @Test("a slow line is not a dead one: a form may take longer than a body, as long as enough of it comes")
  func slow() throws {
    let test = try TestServer {
      $0.limits.bodySeconds = 1
      $0.limits.uploadPaceSeconds = 1
      $0.limits.uploadPaceBytes = 1000
    }
    let client = try test.client()
    let form = Array(Self.form(20_000).utf8)
    client.send(Self.head(form.count))
    let began = Clock.system.monotonicNanoseconds()
    var rest = form[...]
    while !rest.isEmpty {
      client.send(Array(rest.prefix(1500)))
      rest = rest.dropFirst(1500)
      usleep(200_000)
    }
    #expect(client.read()?.text == "[20000]")
    #expect(Clock.system.monotonicNanoseconds() - began > 2_000_000_000)
  }

  @Test("a client that stops, or sends too slowly, is gone soon")
  func stopped() throws {
    let test = try TestServer {
      $0.limits.uploadPaceSeconds = 1
      $0.limits.uploadPaceBytes = 1000
    }
    let client = try test.client()
    client.send(Self.head(1_000_000) + Self.form(0).prefix { $0 != "x" } + "x\r\n\r\n")
    #expect(TestServer.until { test.server.counts.connections == 1 })
    let began = Clock.system.monotonicNanoseconds()
    #expect(
      TestServer.until {
        client.sendUntilFull([0x78])
        return test.server.counts.connections == 0
      })
    #expect((500_000_000..<4_000_000_000).contains(Clock.system.monotonicNanoseconds() - began))
  }

  @Test("an upload ends after its hour, however fast it comes")
  func tooLong() throws {
    let test = try TestServer {
      $0.limits.uploadSeconds = 1
      $0.limits.uploadPaceBytes = 1
    }
    let client = try test.client()
    client.send(Self.head(2_000_000))
    #expect(
      TestServer.until {
        client.sendUntilFull([UInt8](repeating: 0x78, count: 100))
        return test.server.counts.connections == 0
      })
  }

  @Test("each stretch of the pace begins where the one before is complete")
  func pace() {
    var pace = BodyPace(since: 0)
    var complete = [pace.came(99, of: 100, now: 5)]
    #expect(pace.since == 0)
    complete.append(pace.came(1, of: 100, now: 6))
    #expect(pace.since == 6)
    complete.append(pace.came(50, of: 100, now: 7))
    pace.restart(9)
    complete.append(pace.came(50, of: 100, now: 10))
    #expect(complete == [false, true, false, false] && pace.since == 9)
  }
}
