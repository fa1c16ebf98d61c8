import Glibc
import TestSupport
import Testing

/// A service that may open few files, and one whose log nobody reads.
@Suite struct ScarcityTests {
  @Test("B54: with 128 descriptors, idle connections take none from the database: pages are answered")
  func fewDescriptors() throws {
    let service = try ChildService(files: 128)
    let line = try #require(
      service.log.split(separator: "\n").first { $0.contains(#""event":"descriptors""#) })
    #expect(line.contains(#""limit":128"#) && line.contains(#""level":"warning""#))
    let client = Loopback.connect(port: service.port)
    defer { close(client) }
    #expect(service.ask(client, "GET", "/healthz") == 200)
    // The kernel keeps the connections for which the service has no room.
    let idle = (0..<200).map { _ in Loopback.connect(port: service.port) }
    // Wait until the service has accepted connections, before a request needs the database.
    var before = -1
    for _ in 0..<100 {
      let open = service.openFiles
      if open == before { break }
      before = open
      usleep(50_000)
    }
    for _ in 0..<20 {
      #expect(service.ask(client, "GET", "/v1/channels?limit=\(Int.random(in: 1...100))") == 200)
      #expect(service.ask(client, "GET", "/healthz") == 200)
    }
    #expect(service.ask(client, "POST", "/v1/channel-collections", body: "{}") == 201)
    for socket in idle where socket >= 0 { close(socket) }
    let later = Loopback.connect(port: service.port)
    defer { close(later) }
    #expect(service.ask(later, "GET", "/v1/channels") == 200)
    #expect(service.end(SIGTERM) == 0)
  }

  @Test("a process that may open too few files for a service says so and does not start")
  func tooFewDescriptors() throws {
    #expect(throws: ChildService.NotListening.self) { try ChildService(files: 48) }
  }

  @Test("B60: while nothing can be stored, /readyz names storage, and pages are answered")
  func fullDisk() throws {
    let service = try ChildService()
    let client = Loopback.connect(port: service.port)
    defer { close(client) }
    func readiness() -> (status: Int, body: String) { ChildService.answer(client, "GET", "/readyz") }
    #expect(readiness().status == 200 && !readiness().body.contains("storage"))
    #expect(service.limit(fileBytes: 1))
    for _ in 0..<3 {
      #expect(service.ask(client, "POST", "/v1/channel-collections", body: "{}") == 503)
      let answer = readiness()
      #expect(answer.status == 200 && answer.body.contains(#""storage""#), "\(answer.body)")
      #expect(service.ask(client, "GET", "/v1/channels") == 200)
    }
    #expect(service.limit(fileBytes: nil))
    #expect(service.ask(client, "POST", "/v1/channel-collections", body: "{}") == 201)
    #expect(!readiness().body.contains("storage"), "\(readiness().body)")
    #expect(service.end(SIGTERM) == 0)
  }

  @Test("a log that nobody reads holds up neither pages nor commits, nor signals, nor the end")
  func unreadLog() throws {
    var ends: [Int32] = [0, 0]
    pipe(&ends)
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { close(ends[0]) }
    // The pipe is full from the beginning.
    _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
    let room = [UInt8](repeating: 32, count: 4096)
    while write(ends[1], room, room.count) > 0 {}
    _ = fcntl(ends[1], F_SETFL, 0)
    let service = try ChildService(["--log-level", "debug"], errors: ends[1])
    close(ends[1])
    let client = Loopback.connect(port: service.port)
    defer { close(client) }
    for _ in 0..<30 {
      service.send(SIGHUP)
      #expect(service.ask(client, "GET", "/v1/channels") == 200)
      #expect(service.ask(client, "POST", "/v1/channel-collections", body: "{}") == 201)
    }
    #expect(service.end(SIGTERM) == 0, "it ends in time")
  }
}
