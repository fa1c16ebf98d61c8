import ChatCache
import ChatModel
import Platform
import Testing

@testable import ChatSync

/// The whole path: worker, adapter, libcurl, a real socket.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct WireTests {
  @Test(
    "Over real sockets: sync, a dark upstream, hang-ups, 502 with HTML and 429, and agreement after all of it"
  )
  func wholeWay() async throws {
    let server = WireServer()
    defer { server.raw.close() }
    let store = MemoryStore()
    let alice = UserID("alice")
    let urls = (0..<5).map { ChannelURL("c\($0)") }
    for (index, url) in urls.enumerated() {
      server.fake.join(alice, url)
      for number in 0..<(index * 90) { server.fake.send(url, "m\(number)") }
    }
    var limits = HTTPClient.Configuration()
    limits.firstByteMilliseconds = 1_000
    let client = HTTPClient(limits)
    defer { client.close() }
    let upstream = SendbirdUpstream(.init(base: server.base, token: "t"), client: client)
    let worker = SyncWorker(upstream: upstream, store: store, pace: World.pace, seed: 1)
    try await worker.start()
    #expect(await worker.connect(alice, waitMilliseconds: 5_000)?.phase == .connected)
    for url in urls { await worker.open(OpenView(id: url.text, channel: url, isAtNewest: true), isNew: true) }
    let agree: () -> String? = {
      urls.compactMap { World.difference(server.fake, store, $0, newest: 150) }.first
    }
    #expect(await World.wait { agree() == nil })
    for fault in [FakeUpstream.Fault.refuse, .garbage, .rateLimit, .lose] {
      server.fake.state.withLock { $0.fault = { Int.random(in: 0..<10, using: &$0) < 7 ? fault : .none } }
      for url in urls {
        for number in 0..<20 { server.fake.send(url, "during \(number)") }
        server.fake.edit(url, 15, "edited \(fault)")
        server.fake.delete(url, 16)
      }
      try await Task.sleep(for: .milliseconds(60))
    }
    server.fake.state.withLock { $0.fault = { _ in .none } }
    await worker.urge()
    let isEqual = await World.wait { agree() == nil }
    #expect(isEqual, "\(agree() ?? "")")
    await worker.stop()
  }
}
