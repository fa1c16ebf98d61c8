import Glibc
import Platform
import Testing

@testable import MicroHTTP

/// Workarounds for faults of libmicrohttpd.
@Suite struct PatchTests {
  @Test("html_error_pages.c: the library's own refusals are problems, and their head comes once")
  func errorPages() throws {
    let test = try TestServer()
    let client = try test.client()
    client.send("GET /hello HTTP/1.1\r\nHost: test\r\nContent-Length: x\r\n\r\n")
    let answer = try #require(client.read())
    #expect(answer.status == 400 && answer.header("Content-Type") == "application/problem+json")
    #expect(answer.text.contains("\"code\":\"malformed_request\"") && !answer.text.contains("HTTP/1.1 400"))
    #expect(client.isClosed)
  }

  @Test("Worker: exactly 128 requests that come at once are all answered")
  func fullBatch() throws {
    let test = try TestServer { $0.workers = 1 }
    let clients = try (0..<128).map { number in
      let client = try test.client(source: 2 + number % 8)
      #expect(client.get("/hello")?.status == 200)
      return client
    }
    // All clients send while the worker is busy. The connection that keeps it busy is closed afterwards, so
    // that only the 128 are ready.
    let busy = try test.client()
    busy.send("GET /slow HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
    try #require(TestServer.until { test.server.counters.running == 1 })
    for client in clients { client.send("GET /hello HTTP/1.1\r\nHost: test\r\n\r\n") }
    let began = Clock.system.monotonicNanoseconds()
    for client in clients { #expect(client.read()?.text == "hello") }
    #expect(Clock.system.monotonicNanoseconds() - began < 2_000_000_000)
  }
}
