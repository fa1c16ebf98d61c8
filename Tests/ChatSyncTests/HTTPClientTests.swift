import Platform
import Testing

@testable import ChatSync

@Suite(.timeLimit(.minutes(5)))
struct HTTPClientTests {
  private func client(_ change: (inout HTTPClient.Configuration) -> Void = { _ in }) -> HTTPClient {
    var configuration = HTTPClient.Configuration()
    change(&configuration)
    return HTTPClient(configuration)
  }

  private func failure(_ client: HTTPClient, _ request: HTTPRequest) async -> TransportFailure? {
    do {
      _ = try await client.send(request)
      return nil
    } catch { return error }
  }

  @Test("A request brings its body, its status and the headers that say how to go on")
  func answer() async throws {
    let server = RawServer { _ in
      RawServer.ok(
        "{\"a\":1}",
        headers: "Retry-After: 7\r\nX-RateLimit-Remaining: 3\r\nContent-Type: application/json\r\n")
    }
    defer { server.close() }
    let client = client()
    defer { client.close() }
    let response = try await client.send(
      HTTPRequest(
        .post, "http://127.0.0.1:\(server.port)/v3/x", headers: ["Api-Token: t"],
        body: .json(Array("{}".utf8))))
    #expect(response.status == 200)
    #expect(String(decoding: response.body.bytes, as: UTF8.self) == "{\"a\":1}")
    #expect(response.headers.retryAfter == "7")
    #expect(response.headers.rateRemaining == "3")
    let request = server.requests.withLock { $0.joined() }
    #expect(request.hasPrefix("POST /v3/x HTTP/1.1\r\n"))
    #expect(request.contains("Api-Token: t\r\n"))
    #expect(request.hasSuffix("{}"))
  }

  @Test("Connections are kept: ten requests one after the other use one")
  func keepAlive() async throws {
    let connections = Guarded(0)
    let server = RawServer { _ in RawServer.ok("x") }
    defer { server.close() }
    let client = client()
    defer { client.close() }
    for _ in 0..<10 { _ = try await client.send(HTTPRequest(.get, "http://127.0.0.1:\(server.port)/")) }
    connections.withLock { $0 = server.connectionCount }
    #expect(connections.withLock { $0 } == 1)
    #expect(client.requestsStarted == 10)
  }

  @Test("Nobody there is a failure to connect, and nothing may have arrived")
  func refused() async {
    let server = RawServer { _ in .hangUp }
    server.close()
    let client = client()
    defer { client.close() }
    let failure = await failure(client, HTTPRequest(.get, "http://127.0.0.1:\(server.port)/"))
    #expect(failure?.kind == .connect)
    #expect(failure?.mayHaveArrived == false)
  }

  @Test("A black hole after accept ends at the first byte's deadline, and the request may have arrived")
  func blackHole() async {
    let server = RawServer { _ in .silence }
    defer { server.close() }
    let client = client { $0.firstByteMilliseconds = 150 }
    defer { client.close() }
    let failure = await failure(client, HTTPRequest(.get, "http://127.0.0.1:\(server.port)/"))
    #expect(failure?.kind == .silent)
    #expect(failure?.mayHaveArrived == true)
  }

  @Test("An answer that trickles ends at the total deadline")
  func trickle() async {
    let server = RawServer { _ in .text("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc") }
    defer { server.close() }
    let client = client { $0.totalMilliseconds = 200 }
    defer { client.close() }
    #expect(await failure(client, HTTPRequest(.get, "http://127.0.0.1:\(server.port)/"))?.kind == .timeout)
  }

  @Test("A hang-up after the request is a broken answer that may have arrived")
  func hangUp() async {
    let server = RawServer { _ in .hangUp }
    defer { server.close() }
    let client = client()
    defer { client.close() }
    let failure = await failure(
      client, HTTPRequest(.post, "http://127.0.0.1:\(server.port)/", body: .json([0x7B, 0x7D])))
    #expect(failure?.kind == .broken)
    #expect(failure?.mayHaveArrived == true)
  }

  @Test("An answer beyond the limit is cut off")
  func tooLarge() async {
    let server = RawServer { _ in RawServer.ok(String(repeating: "x", count: 5000)) }
    defer { server.close() }
    let client = client { $0.responseBytes = 1000 }
    defer { client.close() }
    #expect(await failure(client, HTTPRequest(.get, "http://127.0.0.1:\(server.port)/"))?.kind == .tooLarge)
  }

  @Test("A canceled task ends its request, in flight or waiting")
  func cancel() async {
    let server = RawServer { _ in .silence }
    defer { server.close() }
    let client = client { $0.inFlight = 1 }
    defer { client.close() }
    let url = "http://127.0.0.1:\(server.port)/"
    let first = Task { await failure(client, HTTPRequest(.get, url)) }
    let second = Task { await failure(client, HTTPRequest(.get, url)) }
    while server.requests.withLock({ $0.isEmpty }) { await Task.yield() }
    second.cancel()
    #expect(await second.value?.kind == .canceled)
    first.cancel()
    #expect(await first.value?.kind == .canceled)
  }

  @Test("Closing ends what runs and refuses what comes")
  func close() async {
    let server = RawServer { _ in .silence }
    defer { server.close() }
    let client = client()
    let url = "http://127.0.0.1:\(server.port)/"
    let running = Task { await failure(client, HTTPRequest(.get, url)) }
    while server.requests.withLock({ $0.isEmpty }) { await Task.yield() }
    client.close()
    #expect(await running.value?.kind == .closed)
    #expect(await failure(client, HTTPRequest(.get, url))?.kind == .closed)
  }
}
