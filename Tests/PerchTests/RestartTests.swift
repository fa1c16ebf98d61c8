import ChatCache
import Glibc
import Platform
import TestSupport
import Testing

/// A client's answers while the service restarts.
@Suite struct RestartTests {
  @Test("B22, B63: while the service starts again, a client's view is not yet served, and never gone")
  func views() throws {
    let first = try ChildService()
    let client = Loopback.connect(port: first.port)
    for _ in 0..<200 {
      try #require(first.ask(client, "POST", "/v1/channel-collections", body: "{}") == 201)
    }
    close(client)
    try #require(first.end(SIGTERM) == 0)
    let last = try lastView(first.folder)
    for _ in 0..<5 {
      let (port, seen) = (first.port, Guarded<Set<Int>>([]))
      let asking = Thread("asking") {
        // Until the view is served, or gone.
        let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 20e9)
        while Clock.system.monotonicNanoseconds() < end {
          let socket = Loopback.connect(port: port)
          guard socket >= 0 else { continue }
          let status = ChildService.ask(socket, "GET", "/v1/channel-collections/\(last)")
          close(socket)
          seen.withLock { _ = $0.insert(status) }
          if status == 200 || status == 404 { return }
        }
      }
      let again = try ChildService(over: first.folder, listen: port)
      asking.join()
      let statuses = seen.withLock { $0 }
      #expect(statuses.contains(200) && statuses.isSubset(of: [0, 200, 503]), "\(statuses)")
      try #require(again.end(SIGTERM) == 0)
    }
  }

  /// The view that is read last when the service starts.
  private func lastView(_ folder: String) throws -> String {
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    return try #require(try cache.read { try $0.collections() }.last).id
  }

  @Test("a start that is refused ends by itself, whatever clients ask meanwhile")
  func refused() throws {
    func upstream(_ port: Int) -> [String] {
      ["--upstream", "http://127.0.0.1:\(port)", "--upstream-token", "t"]
    }
    let first = try ChildService(upstream(1))
    let (port, isOver) = (first.port, Guarded(false))
    try #require(first.end(SIGTERM) == 0)
    let asking = (0..<6).map { _ in
      Thread("asking") {
        while !isOver.withLock({ $0 }) {
          usleep(500)
          let socket = Loopback.connect(port: port)
          guard socket >= 0 else { continue }
          _ = ChildService.ask(socket, "GET", "/v1/channels")
          close(socket)
        }
      }
    }
    for _ in 0..<20 {
      // The directory belongs to another upstream, which the process finds out after it has opened the
      // listener.
      let process = try ChildProcess(
        "perch",
        ["serve", "--listen", "127.0.0.1:\(port)", "--auth", "off", "--data", first.folder] + upstream(2),
        log: first.folder + "/refused")
      #expect(process.end(0, within: 20 * patience) == 1 << 8, "the exit code is 1")
    }
    isOver.withLock { $0 = true }
    for thread in asking { thread.join() }
  }

  @Test("the address of a service that was killed is gone as soon as the next one owns its directory")
  func address() throws {
    let first = try ChildService()
    #expect(first.end(SIGKILL) == nil)
    #expect(access(first.folder + "/address", F_OK) == 0)
    // With so few descriptors it cannot listen.
    #expect(throws: ChildService.NotListening.self) { try ChildService(files: 48, over: first.folder) }
    #expect(access(first.folder + "/address", F_OK) != 0)
  }
}
