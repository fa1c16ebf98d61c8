import ChatCache
import ChatModel
import Glibc
import Platform
import Testing

@testable import ChatSync

/// Seeded storms between a worker and its upstream, with restarts, while other users go on writing. After
/// they end, cache and upstream must agree. The storms run in parallel, so that tasks wait for the processor.
/// `PERCH_TORTURE_SEEDS` sets how many seeds are tried; `PERCH_TORTURE_SEED` names one.
@Suite(.timeLimit(.minutes(30)))
struct NemesisTests {
  private static func number(_ name: String) -> Int? { getenv(name).flatMap { Int(String(cString: $0)) } }

  static var seeds: [Int] {
    if let one = number("PERCH_TORTURE_SEED") { return [one] }
    return Array(1...(number("PERCH_TORTURE_SEEDS") ?? 24))
  }

  @Test("After any storm the cache equals the upstream within 10 s", arguments: seeds)
  func storm(seed: Int) async throws {
    var random = Seeded(UInt64(seed))
    let upstream = FakeUpstream()
    let store = MemoryStore()
    let alice = UserID("alice")
    let urls = (0..<6).map { ChannelURL("c\($0)") }
    upstream.state.withLock { $0.random = Seeded(UInt64(seed) &+ 99) }
    for url in urls.prefix(5) {
      upstream.join(alice, url)
      for _ in 0..<Int.random(in: 0...400, using: &random) {
        upstream.send(url, "old", sameMillisecond: Bool.random(using: &random))
      }
    }
    let hasChangelogs = Int.random(in: 0..<4, using: &random) > 0
    if !hasChangelogs { upstream.state.withLock { $0.lacks = [.channelChangelog, .messageChangelog] } }
    var worker = World.worker(upstream, store, UInt64(seed))
    try await worker.start()
    await worker.seen(alice)
    let open = urls.prefix(2)
    for url in open { await worker.open(OpenView(id: url.text, channel: url, isAtNewest: true), isNew: true) }
    for _ in 0..<30 {
      NemesisTests.weather(upstream, &random)
      for _ in 0..<Int.random(in: 0...60, using: &random) {
        NemesisTests.others(upstream, urls, alice, &random)
      }
      if Int.random(in: 0..<6, using: &random) == 0 {
        await worker.stop()
        worker = World.worker(upstream, store, UInt64.random(in: 0 ... .max, using: &random))
        try await worker.start()
        for url in open {
          await worker.open(OpenView(id: url.text, channel: url, isAtNewest: true), isNew: false)
        }
      }
      try await Task.sleep(for: .milliseconds(Int.random(in: 0...20, using: &random)))
    }
    upstream.state.withLock { $0.fault = { _ in .none } }
    // A restart forgets a user whom the upstream never acknowledged; the user's next request adds the user
    // again.
    await worker.seen(alice)
    await worker.urge()
    // The worker does not ask for edits in a channel without an open view, so open views.
    for url in urls {
      await worker.open(OpenView(id: url.text, channel: url, isAtNewest: true), isNew: false)
    }
    var last: String?
    let isEqual = await World.wait(seconds: 10) {
      last = NemesisTests.difference(upstream, store, alice, urls)
      return last == nil
    }
    #expect(isEqual, "seed \(seed): \(last ?? "")")
    await worker.stop()
  }

  private static func difference(
    _ upstream: FakeUpstream, _ store: MemoryStore, _ user: UserID, _ urls: [ChannelURL]
  ) -> String? {
    let truth = upstream.state.withLock { state in
      state.channels.filter { $0.value.members.contains(user) }.map(\.key.text).sorted()
    }
    let cached = store.state.withLock { $0.users[user]?.channels.keys.map(\.text).sorted() ?? [] }
    guard truth == cached else { return "channels \(cached) are not \(truth)" }
    for text in truth {
      let difference = World.difference(upstream, store, ChannelURL(text), newest: 85)
      if let difference { return difference }
    }
    return nil
  }

  private static func weather(_ upstream: FakeUpstream, _ random: inout Seeded) {
    let faults: [FakeUpstream.Fault] = [.none, .refuse, .lose, .garbage, .slow, .rateLimit, .cut]
    let fault = faults.randomElement(using: &random) ?? .none
    let share = Int.random(in: 1...10, using: &random)
    let forgets = Int.random(in: 0..<10, using: &random) == 0
    upstream.state.withLock { state in
      state.fault = { Int.random(in: 0..<10, using: &$0) < share ? fault : .none }
      if forgets { state.generation += 1 }
    }
  }

  private static func others(
    _ upstream: FakeUpstream, _ urls: [ChannelURL], _ alice: UserID, _ random: inout Seeded
  ) {
    let url = urls.randomElement(using: &random) ?? urls[0]
    let count = upstream.state.withLock { $0.channels[url]?.messages.count ?? 0 }
    let index = max(0, count - 1 - Int.random(in: 0..<60, using: &random))
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<70: upstream.send(url, "t\(random.next() % 1000)", sameMillisecond: Bool.random(using: &random))
    case 70..<85: upstream.edit(url, index, "e\(random.next() % 1000)")
    case 85..<97: upstream.delete(url, index)
    case 97: upstream.join(alice, url, leaves: true)
    default: upstream.join(alice, url)
    }
  }
}
