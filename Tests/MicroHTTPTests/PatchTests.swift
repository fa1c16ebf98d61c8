import CMicroHTTPD
import Glibc
import Platform
import Testing

@testable import MicroHTTP

/// The faults of libmicrohttpd that `CMicroHTTPDPatches` works round, a test for each of its files.
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

  @Test("wait_after_full_batch.c: the wait that follows 128 events at once does not wait")
  func fullBatch() {
    let queue = epoll_create1(Int32(EPOLL_CLOEXEC))
    let ready = (0..<128).map { _ in eventfd(1, Int32(EFD_CLOEXEC)) }
    defer { for file in ready + [queue] { close(file) } }
    for file in ready {
      var event = epoll_event(events: EPOLLIN.rawValue | EPOLLET.rawValue, data: epoll_data_t(fd: file))
      epoll_ctl(queue, EPOLL_CTL_ADD, file, &event)
    }
    var events = [epoll_event](repeating: epoll_event(), count: 128)
    #expect(epoll_wait(queue, &events, 128, 3000) == 128)
    let began = Clock.system.monotonicNanoseconds()
    #expect(epoll_wait(queue, &events, 128, 3000) == 0)
    #expect(Clock.system.monotonicNanoseconds() - began < 1_000_000_000)
  }
}
