import Glibc
import Platform
import Synchronization

@testable import MicroHTTP

/// A server with one route of each kind.
final class TestServer: Sendable {
  let server: Server
  let board = Board()

  /// Waiters of `/wait` and a number that grows with each publication.
  final class Board: Sendable {
    struct State {
      var number = 0
      var waiters: [Waiter] = []
      var left = 0
      var streamsEnded = 0
    }
    let state = Guarded(State())

    var number: Int { state.withLock { $0.number } }
    func add(_ waiter: Waiter) { state.withLock { $0.waiters.append(waiter) } }

    func publish() {
      let waiters = state.withLock { state -> [Waiter] in
        state.number += 1
        defer { state.waiters = [] }
        return state.waiters
      }
      Waiter.wakeAll(waiters)
    }
  }

  /// Whether these tests treat libmicrohttpd as an unknown version: `PERCH_TEST_HTTP_LIBRARY=unknown`.
  static let distrustsLibrary = getenv("PERCH_TEST_HTTP_LIBRARY").map { String(cString: $0) } == "unknown"

  init(_ change: (inout Configuration) -> Void = { _ in }) throws {
    var configuration = Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0))
    configuration.distrustsLibrary = TestServer.distrustsLibrary
    change(&configuration)
    server = try Server(configuration)
    try server.start(TestServer.routes(board))
  }

  deinit { server.shutDown(withinSeconds: 5) }

  func client(source: Int? = nil) throws -> RawClient {
    guard let client = RawClient(port: server.port, source: source) else {
      throw ServerError(detail: "no connection")
    }
    return client
  }

  /// Waits until `condition` holds, 10 s at most.
  static func until(_ condition: () -> Bool) -> Bool {
    let end = Clock.system.monotonicNanoseconds() + 10_000_000_000
    while !condition() {
      if Clock.system.monotonicNanoseconds() > end { return false }
      usleep(2000)
    }
    return true
  }

  struct Unexplained: Error {}

  /// Answers with the query's items as headers.
  private static let headers = Route(.get, "/headers", operation: "headers") { request in
    var response = Response.text("headers")
    for item in request.query { response.add(item.name, item.value) }
    return .respond(response)
  }

  private static func routes(_ board: Board) -> [Route] {
    [
      Route(.get, "/hello", operation: "hello") { _ in .respond(.text("hello")) },
      headers,
      Route(.get, "/problem", operation: "problem") { _ in
        throw Problem(
          409, "wrong_state", detail: "do something else", errors: [.init("name", "taken \"twice\"")],
          headers: [("Retry-After", "7")], members: #""upstream":{"code":1}"#)
      },
      Route(.get, "/bug", operation: "bug") { _ in throw Unexplained() },
      Route(.get, "/items/{item}/parts/{part}", operation: "part") { request in
        .respond(.text("\(request.parameter("item")!)|\(request.parameter(1))"))
      },
      Route(.get, "/items/special/parts/{part}", operation: "special") { _ in .respond(.text("special")) },
      Route(.get, "/query", operation: "query") { request in
        .respond(
          .text(
            request.query.map { "\($0.name)=\($0.value);\($0.integer.map { "\($0)" } ?? "-")" }.joined(
              separator: "\n")))
      },
      Route(.post, "/echo", operation: "echo", body: .collected(limit: 10_000, types: [])) { request in
        var body = ByteBuffer(capacity: 64)
        body.append(request.body)
        return .respond(.json(body))
      },
      Route(.post, "/json", operation: "json", body: .collected(limit: 100, required: true)) { request in
        .respond(.text("\(request.body.count)"))
      },
      Route(.post, "/form", operation: "form", body: .multipart(limit: 3_000_000)) { request in
        let parts = request.parts!.map { part in
          var info = stat()
          let size = part.path.map { stat($0, &info) == 0 ? Int(info.st_size) : -1 }
          let text = String(decoding: part.value, as: UTF8.self)
          return
            "\(part.name)|\(part.fileName ?? "-")|\(part.contentType ?? "-")|\(part.byteCount)|\(size ?? -2)|\(text)"
        }
        return .respond(.text(parts.joined(separator: "\n")))
      },
      Route(.get, "/count", operation: "count") { request in
        let counter = request.attachment as? Count ?? Count()
        counter.value += 1
        request.attachment = counter
        request.user = "alice"
        return .respond(.text("\(counter.value)"))
      },
      Route(.get, "/file", operation: "file") { request in
        .respond(
          try .file(
            "/tmp/perch-http-test-file", type: "application/octet-stream", etag: "\"v1\"", for: request))
      },
      Route(.get, "/wait", operation: "wait") { request in try waitFor(board, request) },
      Route(.get, "/now", operation: "now") { request in
        let waiter = request.makeWaiter()
        waiter.wake()
        return .park(Parking(waiter, milliseconds: nil) { .respond(.text("\($0)")) })
      },
      Route(.get, "/events", operation: "events") { request in .respond(stream(board, request)) },
    ] + [shared(), known(), slow(), flood(board), burst(board), links(), large()]
      + [largeBody(), upload(board), costly(board)]
  }

  /// Takes a form that `admit` accepts by its head: with `judge=refuse` none, with `judge=wait` when the
  /// board publishes.
  private static func upload(_ board: Board) -> Route {
    Route(
      .post, "/upload", operation: "upload",
      body: .upload(limit: 3_000_000) { request in
        let judge = request.query.first { $0.isNamed("judge") }?.value
        if judge == "refuse" { throw Problem(403, "not_allowed", detail: "no") }
        guard judge == "wait" else { return .receive(TemporaryFiles(in: "/tmp")) }
        let waiter = request.makeWaiter()
        board.add(waiter)
        return .park(
          Parking(waiter, milliseconds: 20_000) { reason in
            if reason == .hungUp { board.state.withLock { $0.left += 1 } }
            guard reason == .woken else { throw Problem(503, "late", detail: "\(reason)") }
            return .receive(TemporaryFiles(in: "/tmp"))
          })
      }
    ) { request in
      .respond(.text("\(request.parts?.map(\.byteCount) ?? [])"))
    }
  }

  /// Answers with an optional link of as many bytes as the query says.
  private static func links() -> Route {
    Route(.get, "/links", operation: "links") { request in
      var response = Response.text("links")
      response.addIfItFits("Link") { value in
        let count = request.query.map { Int($0.name) ?? 0 }.first ?? 0
        value.append(String(repeating: "l", count: count))
      }
      response.add("X-After", "1")
      return .respond(response)
    }
  }

  /// Answers with a header that is larger than a connection's memory.
  private static func large() -> Route {
    Route(.get, "/large", operation: "large") { _ in
      var response = Response.text("large")
      response.add("X-Large", String(repeating: "x", count: 9000))
      return .respond(response)
    }
  }

  /// Answers with the length of its body.
  private static func largeBody() -> Route {
    Route(.post, "/large", operation: "largeBody", body: .collected(limit: 1 << 20, types: [])) { request in
      .respond(.text("\(request.body.count)"))
    }
  }

  private static func costly(_ board: Board) -> Route {
    Route(.get, "/costly", operation: "costly") { try waitFor(board, $0, .costly) }
  }

  private static func shared() -> Route {
    var body = ByteBuffer(capacity: 64)
    body.append("{\"shared\":true}")
    let shared = SharedResponse(headers: [("ETag", "\"s\"")], body: body)
    return Route(.get, "/shared", operation: "shared") { _ in .respond(shared.response) }
  }

  private static func known() -> Route {
    let shared = SharedResponse(
      status: 304, type: nil, headers: [("Vary", "Accept")], varying: .init("ETag", width: 5),
      body: ByteBuffer())
    return Route(.get, "/known/{tag}", operation: "known") { request in
      .respond(shared.response("\"\(request.parameter(0))\""))
    }
  }

  private static func slow() -> Route {
    Route(.get, "/slow", operation: "slow") { _ in
      usleep(300_000)
      return .respond(.text("slow"))
    }
  }

  private static func flood(_ board: Board) -> Route {
    Route(.get, "/flood", operation: "flood") { request in
      let stream = EventStream(request.makeWaiter()) { batch in
        for _ in 0..<1000 { batch.append("data: 0123456789012345678901234567890123456789\n\n") }
        return .more
      } ended: {
        board.state.withLock { $0.streamsEnded += 1 }
      }
      return .respond(.events(stream))
    }
  }

  /// A stream that waits for the next publication, then sends a megabyte in pieces, and waits again.
  private static func burst(_ board: Board) -> Route {
    Route(.get, "/burst", operation: "burst") { request in
      let waiter = request.makeWaiter()
      var position = board.number
      var left = 0
      let stream = EventStream(waiter) { piece in
        board.add(waiter)
        if left <= 0, board.number > position {
          position = board.number
          left = 1_048_576
        }
        guard left > 0 else { return .wait }
        let before = piece.count
        for _ in 0..<1200 { piece.append("data: 0123456789012345678901234567890123456789\n\n") }
        left -= piece.count - before
        return .more
      }
      return .respond(.events(stream))
    }
  }

  private static func waitFor(
    _ board: Board, _ request: Request, _ company: Company = .many
  ) throws -> Outcome {
    var wait: Int?
    var since = board.number
    for item in request.query {
      if item.isNamed("ms") { wait = item.integer.map { Int($0) } }
      if item.isNamed("since") { since = Int(item.integer ?? 0) }
    }
    let waiter = request.makeWaiter()
    board.add(waiter)
    if board.number > since { return .respond(.text("early \(board.number)")) }
    return .park(
      Parking(waiter, milliseconds: wait, company) { reason in
        if reason == .hungUp { board.state.withLock { $0.left += 1 } }
        return .respond(.text("\(reason) \(board.number)"))
      })
  }

  private static func stream(_ board: Board, _ request: Request) -> Response {
    let waiter = request.makeWaiter()
    var position = board.number
    return .events(
      EventStream(waiter) { batch in
        board.add(waiter)
        let now = board.number
        if now == position { return .wait }
        position = now
        var data = ByteBuffer(capacity: 16)
        data.append("{\"number\":")
        data.append(decimal: Int64(now))
        data.append("}")
        batch.append(event: "tick", id: nil, data: data.bytes)
        return .more
      } ended: {
        board.state.withLock { $0.streamsEnded += 1 }
      })
  }

  final class Count {
    var value = 0
  }
}
