import Glibc
import TestSupport
import Testing

@testable import MicroHTTP
@testable import Origin

/// A replay answers only recorded requests, in the recorded order.
@Suite struct ReplayTests {
  private func exchange(
    _ method: String, _ path: String, _ query: [(String, String)] = [], request: Value? = nil,
    answer: Value
  ) -> Exchange {
    var exchange = Exchange(method: method, path: path.split(separator: "/").map(String.init))
    exchange.query = query.map { .init(name: $0.0, value: $0.1) }
    exchange.request = request.map { .json($0) } ?? .nothing
    exchange.status = 200
    exchange.answer = .json(answer)
    return exchange
  }

  private func list(_ answer: Int64) -> Exchange {
    exchange("GET", "v3/group_channels/c/messages", [("prev_limit", "1")], answer: .integer(answer))
  }

  private func post(_ text: String, _ answer: Value) -> Exchange {
    exchange(
      "POST", "v3/group_channels/c/messages", request: .object(["message": .string(text)]), answer: answer)
  }

  @Test("a request in other words, with another method, or another body, is not answered")
  func strict() {
    var replay = Replay(Recording([list(1), post("abcde", .integer(2))]))
    #expect(replay.answer(list(0))?.answer == .json(.integer(1)))
    var other = list(0)
    other.query[0].value = "2"
    #expect(replay.answer(other) == nil)
    other = list(0)
    other.query.append(.init(name: "reverse", value: "false"))
    #expect(replay.answer(other) == nil)
    #expect(replay.answer(exchange("GET", "v3/group_channels/d/messages", answer: .null)) == nil)
    #expect(replay.answer(post("longer than that", .null)) == nil)
    #expect(replay.unsent.count == 1)
    #expect(replay.answer(post("hello", .null))?.answer == .json(.integer(2)))
    #expect(replay.answer(post("hello", .null)) == nil, "what changes something is answered once")
    #expect(replay.unknown.count == 5 && replay.unsent.isEmpty && replay.unused.isEmpty)
  }

  @Test("answers come in their order, and never from before or after what was done meanwhile")
  func order() {
    let recording = Recording([
      list(1), list(2), list(3), post("abcde", .integer(0)), list(4), list(5), post("fghij", .integer(0)),
      list(6),
    ])
    func listed(_ replay: inout Replay) -> Int64 {
      if case .json(.integer(let number))? = replay.answer(list(0))?.answer { number } else { -1 }
    }
    var slow = Replay(recording)
    #expect((0..<5).map { _ in listed(&slow) } == [1, 2, 3, 3, 3], "what comes is not told before")
    _ = slow.answer(post("hello", .null))
    _ = slow.answer(post("world", .null))
    #expect(listed(&slow) == 6, "what was is not told any more")
    var quick = Replay(recording)
    _ = quick.answer(post("hello", .null))
    #expect((0..<3).map { _ in listed(&quick) } == [4, 5, 5])
  }

  @Test("who sends a text where a blank is recorded is shown that text")
  func texts() {
    let sent = post("abcde", .object(["message": .string("abcde"), "next": .string("fghij")]))
    let again = post("abcde", .object(["message": .string("abcde")]))
    var replay = Replay(Recording([sent, again]))
    let answer = replay.answer(post("hello", .null))?.answer
    #expect(answer == .json(.object(["message": .string("hello"), "next": .string("fghij")])))
    #expect(replay.answer(post("world", .null)) == nil, "one blank stands for one text")
    #expect(replay.answer(post("hello", .null)) != nil)
  }

  @Test("a file can be read again as it was written, and one that is none is refused in words")
  func file() throws {
    var odd = post("x", .object(["a": .array([.null, .double(1.5), .string("é\n")])]))
    odd.headers = ["retry-after": "3"]
    odd.milliseconds = 7
    var page = list(1)
    page.answer = .bytes(12, type: "text/html")
    let recording = Recording([odd, page])
    #expect(try Recording(recording.text) == recording)
    #expect(throws: OriginError.self) { try Recording("{}") }
    let error = #expect(throws: OriginError.self) {
      try Recording(Recording.head + "\n{\"method\":\"GET\"}\n")
    }
    #expect(error?.description.contains("line 2") == true)
  }

  @Test(
    "a line with a status or a length that no answer can have is refused in words",
    arguments: [
      #""status":99"#, #""status":9223372036854775807"#, #""status":200,"answer_bytes":-1"#,
      #""status":200,"answer_bytes":9223372036854775807"#, #""status":200,"request_bytes":"7""#,
      #""status":200,"ms":9223372036854775807"#,
    ])
  func impossible(fields: String) throws {
    let line = #"{"method":"GET","path":["v3","users"],\#(fields)}"#
    #expect(throws: OriginError.self) { try Recording(Recording.head + "\n" + line) }
  }

  /// Sends a request to a port.
  private func exchange(_ port: UInt16, _ method: String, _ path: String, _ body: String = "") -> (
    Int, String
  ) {
    let answer = Line(port: port).exchange(method, path, body)
    return (answer?.0 ?? 0, String(decoding: answer?.1 ?? [], as: UTF8.self))
  }

  @Test("what does not fit into the file ends the recording, and nothing is kept of what comes then")
  func full() throws {
    let scratch = try Scratch()
    let wire = try Wire()
    var configuration = RecordingProxy.Configuration(
      upstream: wire.origin.base, path: scratch.path + "/recorded")
    configuration.mostBytes = 500
    let proxy = try RecordingProxy(configuration)
    let port = try proxy.start()
    let messages = "/v3/group_channels/general/messages"
    let long = String(repeating: "x", count: 1_000)
    #expect(exchange(port, "GET", "/v3/users/nobody").0 == 400)
    let sent = exchange(
      port, "POST", messages, #"{"message_type":"MESG","user_id":"alice","message":"\#(long)"}"#)
    #expect(sent.0 == 200, "the client is answered")
    #expect(exchange(port, "GET", "/v3/users/nobody").0 == 400)
    let report = proxy.stop()
    #expect(report.exchanges == 1 && report.lost == 2)
    #expect(try Recording(path: configuration.path).exchanges.count == 1)
  }

  @Test("HEAD is answered as GET is, and recorded as one")
  func head() throws {
    let scratch = try Scratch()
    let path = scratch.path + "/recorded"
    let wire = try Wire()
    let proxy = try RecordingProxy(.init(upstream: wire.origin.base, path: path))
    let port = try proxy.start()
    let socket = Loopback.connect(port: port)
    defer { close(socket) }
    let request = "HEAD /v3/users/alice HTTP/1.1\r\nHost: x\r\nApi-Token: origin\r\nConnection: close\r\n\r\n"
    _ = send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL))
    var room = [UInt8](repeating: 0, count: 4096)
    let count = recv(socket, &room, room.count, Int32(MSG_WAITALL))
    #expect(String(decoding: room[..<max(0, count)], as: UTF8.self).hasPrefix("HTTP/1.1 200"))
    #expect(proxy.stop().exchanges == 1)
    #expect(try Recording(path: path).exchanges.map(\.method) == ["GET"])
  }

  @Test("a recorder ends within seconds though the server does not answer")
  func end() throws {
    let scratch = try Scratch()
    let silent = try SilentServer()
    let proxy = try RecordingProxy(
      .init(upstream: "http://127.0.0.1:\(silent.port)", path: scratch.path + "/recorded"))
    let socket = Loopback.connect(port: try proxy.start())
    defer { close(socket) }
    let request = "GET /v3/users/alice HTTP/1.1\r\nHost: x\r\nApi-Token: origin\r\n\r\n"
    _ = send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL))
    silent.take()
    let began = ContinuousClock.now
    #expect(proxy.stop().lost == 1)
    #expect(ContinuousClock.now - began < .seconds(10 * patience))
  }

  @Test("over sockets: a server recorded and replayed, its key and texts not in the file")
  func wholeWay() throws {
    let scratch = try Scratch()
    let path = scratch.path + "/recorded"
    let wire = try Wire()
    let proxy = try RecordingProxy(.init(upstream: "http://127.0.0.1:\(wire.origin.port)/v3/", path: path))
    let port = try proxy.start()
    let messages = "/v3/group_channels/general/messages"
    let sent = exchange(
      port, "POST", messages, #"{"message_type":"MESG","user_id":"alice","message":"a secret text"}"#)
    #expect(sent.0 == 200 && sent.1.contains("a secret text"))
    let listing = messages + "?message_ts=9007199254740991&prev_limit=5&next_limit=0"
    #expect(exchange(port, "GET", listing).1 == exchange(wire.origin.port, "GET", listing).1)
    #expect(exchange(port, "GET", messages + "/99").1.contains("400201"))
    _ = try wire.call(
      "PUT", "/_faults",
      #"{"faults":[{"kind":"html","path":"/v3/users/alice"},{"kind":"refuse","path":"/v3/users/bob"}]}"#)
    #expect(exchange(port, "GET", "/v3/users/alice").0 == 502)
    #expect(exchange(port, "GET", "/v3/users/bob").0 == 504)
    let report = proxy.stop()
    #expect(report.exchanges == 4 && report.lost == 1 && report.failure == nil)
    #expect(throws: OriginError.self) { try RecordingProxy(.init(upstream: wire.origin.base, path: path)) }
    let recording = try Recording(path: path)
    for secret in ["secret", "alice", "general", "Api-Token", "origin"] {
      #expect(!recording.text.contains(secret), "\(secret) is in \(recording.text)")
    }
    let channel = recording.exchanges[0].path[2]
    guard case .json(let request) = recording.exchanges[0].request else { return }
    let replayed = try ReplayServer(recording)
    let again = try replayed.start()
    let path2 = "/v3/group_channels/\(channel)/messages"
    let body =
      #"{"message_type":"MESG","user_id":"\#(request["user_id"]?.string ?? "")","message":"another text!"}"#
    #expect(exchange(again, "POST", path2, body).1.contains("another text!"))
    #expect(
      exchange(again, "GET", path2 + "?message_ts=9007199254740991&prev_limit=5&next_limit=0").1
        .contains("another text!"))
    #expect(exchange(again, "GET", path2 + "/99").0 == 400)
    #expect(exchange(again, "GET", "/v3/users/\(recording.exchanges[3].path[2])").0 == 502)
    #expect(exchange(again, "GET", path2 + "/98").0 == 599)
    #expect(replayed.unknown == ["GET /" + path2.dropFirst() + "/98"])
    replayed.stop()
  }
}

/// A server that takes connections and never answers.
private final class SilentServer {
  let port: UInt16
  private let socket: Int32
  private var taken: Int32 = -1

  init() throws {
    (socket, port) = try ListenAddress(host: "127.0.0.1", port: 0).open(backlog: 1)
  }

  deinit {
    close(taken)
    close(socket)
  }

  /// Waits for a request.
  func take() {
    var waiting = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
    poll(&waiting, 1, Int32(10_000 * patience))
    taken = accept(socket, nil, nil)
    waiting.fd = taken
    poll(&waiting, 1, Int32(10_000 * patience))
  }
}
