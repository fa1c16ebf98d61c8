import ChatCache
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatSync

extension SyncWorker {
  /// Whether no job and no read is running.
  var isQuiet: Bool { tasks.isEmpty && reads.isEmpty }

  /// When the plan's next job is due by time alone.
  fileprivate var wakeAt: Int64 { plan.wakeAt(now: now) ?? .max }
}

/// Each nemesis alone against the whole worker at its default pace and limits, over a real cache file, real
/// sockets and the stand-in upstream, on a clock that the test moves. After the nemesis ends, both sides
/// agree within 100 s of that clock.
///
/// Once no job is running, the clock moves to the next moment at which one is due. Requests that hang run
/// until their deadline, so while there may be any, the clock moves in small steps instead.
@Suite(.timeLimit(.minutes(10)), .serialized)
struct DefaultPaceTests {
  private static let urls = (0..<5).map { "c\($0)" }
  private static let alice = UserID("alice")
  private static let budget: Int64 = 100_000

  /// Both sides, and their clock.
  final class Desk {
    let time = ManualClock()
    let there: OriginSide
    let here: PerchSide

    fileprivate init(_ nemesis: Nemesis, _ random: inout Seeded) throws {
      there = try OriginSide(hasWebhooks: nemesis.hasWebhooks, clock: time.clock)
      for url in DefaultPaceTests.urls {
        try there.makeChannel(url, ["alice", "bob", "carol"])
        for number in 0..<Int.random(in: 0...240, using: &random) {
          there.send(url, "old \(number)")
          // Where a page of 100 messages is of one millisecond, it proves nothing, and nothing is prefetched.
          if number.isMultiple(of: 3) { time.move(to: time.now + 1) }
        }
      }
      here = try PerchSide(there.url, pace: Pace(), firstByte: 10_000, clock: time.clock)
    }

    /// Moves time until `end`, or until `holds` returns true; `patience` is how long (s) a job may take.
    func pass(
      until end: Int64, patience: Double, _ holds: () async throws -> Bool = { false }
    ) async throws -> Bool {
      var looked: Int64 = 0
      while true {
        let isQuiet = await World.wait(seconds: patience) { await here.worker.isQuiet }
        if isQuiet, time.now >= looked + 1_000 {
          looked = time.now
          if try await holds() { return true }
        }
        guard time.now < end else { return try await holds() }
        // A second at most, because requests and webhooks come at any time.
        let step = isQuiet ? await here.worker.wakeAt : time.now + 250
        time.move(to: min(end, time.now + 1_000, max(step, time.now + 1)))
        here.client.lookAgain()
        await here.worker.turn()
      }
    }

    /// A desk whose channels have `messages` messages of `bytes` bytes each.
    init(channels: [String], messages: Int, of bytes: Int) throws {
      there = try OriginSide(hasWebhooks: false, clock: time.clock)
      for url in channels {
        try there.makeChannel(url, ["alice", "bob"])
        let text = String(repeating: "x", count: bytes)
        for number in 0..<messages { there.send(url, "\(number) \(text)") }
      }
      here = try PerchSide(there.url, pace: Pace(), firstByte: 10_000, clock: time.clock)
    }

    func restart() async throws {
      there.receiver.withLock { $0 = nil }
      try await here.restart()
      await attend()
    }

    func attend() async {
      there.receiver.withLock { $0 = here.worker }
      await here.worker.seen(DefaultPaceTests.alice)
    }

    func end() async {
      there.receiver.withLock { $0 = nil }
      await here.stop()
      here.remove()
      there.stop()
    }
  }

  private func open(_ urls: some Sequence<String>, _ desk: Desk, isNew: Bool) {
    for url in urls {
      desk.here.syncRequests.opened(
        OpenView(id: "v-" + url, channel: ChannelURL(url), isAtNewest: true), isOwedAnswer: isNew)
    }
  }

  @Test(
    "After any nemesis the cache equals the upstream within 100 s at the usual pace",
    arguments: Nemesis.allCases)
  func nemesis(_ nemesis: Nemesis) async throws {
    var random = Seeded(nemesis.rawValue.utf8.reduce(7) { $0 &* 31 &+ UInt64($1) })
    let desk = try Desk(nemesis, &random)
    try desk.there.calm(nemesis.weather)
    try await desk.here.worker.start()
    await desk.attend()
    #expect(
      try await desk.pass(until: desk.time.now + 60_000, patience: 5) {
        desk.here.syncRequests.connection(of: Self.alice).progress.phase == .steady
      })
    open(["c0", "c1"], desk, isNew: true)
    for _ in 0..<(StormTests.number("PERCH_TORTURE_STORMS") == nil ? 4 : 12) {
      try desk.there.set(nemesis.weather, nemesis.faults, seed: Int64(random.next() % 1_000))
      desk.there.isCutOff = nemesis == .networkGone
      for _ in 0..<Int.random(in: 5...25, using: &random) { desk.there.act(Self.urls, &random) }
      if nemesis == .clears { try clear(desk, &random) }
      _ = try await desk.pass(
        until: desk.time.now + Int64.random(in: 500...15_000, using: &random), patience: 0.02)
      if nemesis == .restarts { try await desk.restart() }
      open(["c0", "c1"], desk, isNew: false)
    }
    try await heal(desk, nemesis)
    #expect(try desk.here.damage() == nil)
    await desk.end()
  }

  @Test("B34: an hour of one user with 100 channels, nothing open and no webhook, costs at most 300 requests")
  func quietHour() async throws {
    var random = Seeded(34)
    let desk = try Desk(.slow, &random)
    for number in 0..<95 {
      try desk.there.makeChannel("q\(number)", ["alice", "bob"])
      desk.there.send("q\(number)", "first")
    }
    try await desk.here.worker.start()
    await desk.attend()
    #expect(
      try await desk.pass(until: desk.time.now + 300_000, patience: 5) {
        desk.here.syncRequests.connection(of: Self.alice).progress.phase == .steady
      })
    let before = desk.here.requests
    let end = desk.time.now + 3_600_000
    while desk.time.now < end {
      _ = try await desk.pass(until: min(end, desk.time.now + 600_000), patience: 5)
      // A request of the user, because otherwise the user would become idle.
      await desk.here.worker.seen(Self.alice)
    }
    #expect((100...300).contains(desk.here.requests - before), "\(desk.here.requests - before)")
    // In a channel without a view the change comes within 60 s.
    desk.there.send("q42", "news")
    let newest = { try desk.here.channel("q42", from: .start)?.rows.count == 2 }
    #expect(try await desk.pass(until: desk.time.now + 60_000, patience: 5, newest))
    await desk.end()
  }

  private func heal(_ desk: Desk, _ nemesis: Nemesis) async throws {
    try desk.there.calm(nemesis.weather)
    await desk.attend()
    let mine = try await desk.there.channels(of: "alice")
    open(mine, desk, isNew: false)
    let comparison = try Comparison(desk.there, listsReplies: nemesis.weather.listsReplies)
    defer { comparison.close() }
    var difference: String?
    let agrees = {
      do { difference = try await comparison.difference(desk.here) } catch { difference = "\(error)" }
      return difference == nil
    }
    let healed = desk.time.now
    // Requests that still hang end by their deadline; from then on the test waits for every job.
    var isEqual = try await desk.pass(until: healed + 11_000, patience: 0.03, agrees)
    if !isEqual { isEqual = try await desk.pass(until: healed + Self.budget, patience: 5, agrees) }
    #expect(isEqual, "\(nemesis): \(difference ?? "")")
    #expect(comparison.messages > 0, "nothing was compared")
    let took = desk.time.now - healed
    print("\(nemesis): equal \(took) ms after it ended, \(desk.here.requests) requests")
  }

  private func clear(_ desk: Desk, _ random: inout Seeded) throws {
    let url = ChannelURL(Self.urls.randomElement(using: &random) ?? "c0")
    let isAll = Bool.random(using: &random)
    try desk.here.cache.accept { isAll ? try $0.clearAll(withUnsent: false) : try $0.clear(url) }
  }
}
