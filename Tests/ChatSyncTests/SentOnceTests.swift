import Platform
import Testing

@testable import ChatSync

/// libcurl repeats a request on a new connection when a kept one ended without a byte of an answer.
@Suite(.timeLimit(.minutes(2)))
struct SentOnceTests {
  /// A server that answers requests for `/first` and does `then` with others.
  private func server(_ then: @escaping @Sendable (String) -> RawServer.Answer) -> RawServer {
    RawServer { $0.contains(" /first ") ? RawServer.ok("{}") : then($0) }
  }

  private func request(
    _ method: HTTPRequest.Method, _ path: String, _ server: RawServer
  ) -> HTTPRequest {
    let body: HTTPRequest.Body = method == .get || method == .delete ? .none : .json(Array("{}".utf8))
    return HTTPRequest(method, "http://127.0.0.1:\(server.port)\(path)", body: body)
  }

  /// Warms a connection up with a first request, then sends a second one.
  private func second(_ method: HTTPRequest.Method, _ server: RawServer, _ client: HTTPClient) async throws
    -> TransportFailure?
  {
    _ = try await client.send(request(.get, "/first", server))
    do {
      _ = try await client.send(request(method, "/second", server))
      return nil
    } catch { return error }
  }

  private func count(_ server: RawServer) -> Int {
    server.requests.withLock { $0.count { $0.contains(" /second ") } }
  }

  @Test(
    "B39: a write that a kept connection's end leaves unanswered is sent once, and may have arrived",
    arguments: [HTTPRequest.Method.post, .put, .delete])
  func write(_ method: HTTPRequest.Method) async throws {
    let server = server { _ in .hangUp }
    let client = HTTPClient()
    defer {
      client.close()
      server.close()
    }
    let failure = try await second(method, server, client)
    #expect(failure?.kind == .broken && failure?.mayHaveArrived == true, "\(String(describing: failure))")
    #expect(count(server) == 1)
    #expect(try await client.send(request(.post, "/first", server)).status == 200, "the next one is sent")
  }

  @Test("A read on a kept connection that ended is repeated on a new one")
  func read() async throws {
    let hangUps = Guarded(0)
    let server = server { _ in
      hangUps.withLock { count in
        count += 1
        return count == 1 ? .hangUp : RawServer.ok("{}")
      }
    }
    let client = HTTPClient()
    defer {
      client.close()
      server.close()
    }
    #expect(try await second(.get, server, client) == nil)
    #expect(count(server) == 2)
  }

  @Test("B39: a write may have arrived also where the server cannot be reached any more after it")
  func gone() async throws {
    let listening = Guarded<RawServer?>(nil)
    let server = server { _ in
      listening.withLock { $0 }?.stopListening()
      return .hangUp
    }
    listening.withLock { $0 = server }
    let client = HTTPClient()
    defer {
      client.close()
      server.close()
      listening.withLock { $0 = nil }
    }
    let failure = try await second(.post, server, client)
    #expect(failure?.kind == .broken && failure?.mayHaveArrived == true, "\(String(describing: failure))")
    #expect(count(server) == 1)
  }

  @Test("A write after a kept connection was closed in between goes out over a new one")
  func closedInBetween() async throws {
    let server = RawServer { _ in .lastText("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") }
    let client = HTTPClient()
    defer {
      client.close()
      server.close()
    }
    for number in 1...5 {
      #expect(try await client.send(request(.post, "/second", server)).status == 200)
      while server.hangUps.withLock({ $0 }) < number { await Task.yield() }
    }
    #expect(count(server) == 5 && server.connectionCount == 5)
  }
}
