import ChatModel
import Platform
import SQLite
import Testing

@testable import ChatCache
@testable import ChatSync

/// Messages missed while the upstream could not be reached, over a real cache file and real sockets.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct MissingTests {
  @Test(
    "B28, B29: 299 and 300 messages missed are filled, 301 are a huge gap, ties and deletions inside or not",
    arguments: [299, 300, 301], [false, true])
  func missed(count: Int, isHard: Bool) async throws {
    let sides = try Sides(messages: 120)
    try await sides.open()
    await sides.lose()
    let now = Clock.system.wallMilliseconds()
    var doomed: [Int64] = []
    for number in 0..<(isHard ? count + 9 : count) {
      // In the hard case sixty messages share a millisecond, and nine are deleted before Perch gets them.
      let id = sides.there.send("c0", "late \(number)", at: isHard ? now + Int64(number / 60) : nil)
      if isHard && number % 30 == 7 && doomed.count < 9 { doomed.append(id) }
    }
    for id in doomed { sides.there.delete("c0", id) }
    sides.heal()
    if count <= 300 {
      try await sides.expectEqual()
      #expect(await World.wait { sides.gaps.isEmpty })
      #expect(try sides.events(.hugeGap) == 0)
      #expect(try sides.events(.messages, .messageFill) > 0)
    } else {
      #expect(await World.wait { (try? sides.events(.hugeGap)) == 1 })
      try await sides.expectEqual("the newest page and the old stretch stand")
      let gap = try #require(sides.gaps.last)
      #expect(gap.state == .huge && gap.estimatedMissing ?? 0 > 300)
      sides.here.syncRequests.fill(gap: gap.id, in: ChannelURL("c0"))
      #expect(await World.wait { sides.gaps.isEmpty })
      try await sides.expectEqual()
      #expect(try sides.events(.hugeGap) == 1, "told once")
    }
    await sides.end()
  }

  @Test("B28: opening a long channel for the first time, or one whose cache was cleared, is no huge gap")
  func firstOpening() async throws {
    let sides = try Sides(messages: 900)
    try await sides.open()
    #expect(try sides.events(.hugeGap) == 0)
    #expect(sides.gaps.map(\.reason) == [.neverLoaded])
    try await sides.expectEqual()
    await sides.end()
  }

  @Test("B28: a view opened on a channel of which only a page in the middle is cached has no huge gap")
  func island() async throws {
    var pace = PerchSide.pace
    pace.prefetchMessages = 0
    let sides = try Sides(messages: 900, pace: pace)
    try await sides.here.worker.start()
    _ = sides.here.syncRequests.seen(UserID("alice"))
    #expect(await World.wait { sides.here.syncRequests.connection(of: UserID("alice")).isSynced })
    let wanted = MessageSyncRequest(ChannelURL("c0"), .around(1_700_000_000_010, older: 20, newer: 20))
    #expect(await sides.here.worker.fetch(wanted) == .stored)
    sides.here.syncRequests.opened(
      OpenView(id: "view", channel: ChannelURL("c0"), isAtNewest: true), isOwedAnswer: true)
    #expect(await World.wait { (try? sides.events(.collectionAnswered)) == 1 })
    #expect(try sides.events(.hugeGap) == 0)
    await sides.end()
  }

  @Test("B28: a fill goes on after a restart, as slowly as it was told, and ends with the gap")
  func resumedFill() async throws {
    var pace = PerchSide.pace
    pace.prefetchRate = 4
    let sides = try Sides(messages: 1_000, pace: pace)
    try await sides.open()
    let gap = try #require(sides.gaps.first)
    sides.here.syncRequests.fill(gap: gap.id, in: ChannelURL("c0"))
    #expect(await World.wait { sides.gaps.first?.state == .filling })
    let began = Clock.system.monotonicNanoseconds()
    try await sides.here.restart()
    _ = sides.here.syncRequests.seen(UserID("alice"))
    #expect(await World.wait { sides.gaps.isEmpty })
    #expect(Clock.system.monotonicNanoseconds() - began > 500_000_000, "a few pages a second")
    try await sides.expectEqual()
    await sides.end()
  }

  @Test("B31: a doubt in a millisecond that holds more messages than a page is cleared all the same")
  func doubtInOneMillisecond() async throws {
    let sides = try Sides(messages: 30)
    for number in 0..<350 { sides.there.send("c0", "at once \(number)", at: 1_700_000_009_000) }
    for number in 0..<20 { sides.there.send("c0", "later \(number)", at: 1_700_000_009_500) }
    try await sides.open()
    let gap = try #require(sides.gaps.first)
    sides.here.syncRequests.fill(gap: gap.id, in: ChannelURL("c0"))
    #expect(await World.wait { sides.gaps.isEmpty })
    try sides.here.cache.write { try $0.doubt(ChannelURL("c0")) }
    try await sides.here.restart()
    _ = sides.here.syncRequests.seen(UserID("alice"))
    try await sides.expectEqual()
    let coverage = try #require(try sides.here.channel("c0", from: .start)).coverage
    #expect(coverage.unverified.isEmpty)
    await sides.end()
  }

  @Test("B4: nothing is asked for a disconnected user's channels; connected again, all of them are taken up")
  func disconnected() async throws {
    let alice = UserID("alice")
    let sides = try Sides(messages: 400)
    try sides.there.makeChannel("d", ["alice", "bob"])
    try await sides.open()
    try await sides.expectEqual()
    for isRestarted in [false, true] {
      try await sides.here.worker.disconnect(alice)
      if isRestarted { try await sides.here.restart() }
      #expect(await World.wait { sides.here.syncRequests.link.state == .online })
      // Wait until the channel's jobs have ended.
      #expect(await World.wait { await sides.here.worker.isQuiet })
      let requests = sides.here.requests
      sides.there.send("c0", "while away")
      sides.there.send("d", "while away")
      try await Task.sleep(for: .milliseconds(500))
      #expect(sides.here.requests == requests)
      await sides.here.worker.connect(alice)
      try await sides.expectEqual()
    }
    await sides.end()
  }

  @Test(
    "B32: whether files can be uploaded is asked once, without uploading one, and remembered",
    arguments: [true, false])
  func uploads(areOffered: Bool) async throws {
    let sides = try Sides(messages: 5)
    var weather = OriginSide.Weather()
    weather.takesUploads = areOffered
    try sides.there.calm(weather)
    try await sides.open()
    #expect(await World.wait { sides.here.syncRequests.link.capabilities[.uploads] == areOffered })
    #expect(try sides.there.uploads == 0)
    weather.takesUploads = !areOffered
    try sides.there.calm(weather)
    try await sides.here.restart()
    #expect(await World.wait { sides.here.syncRequests.link.state == .online })
    #expect(sides.here.syncRequests.link.capabilities[.uploads] == areOffered, "nobody is asked twice")
    await sides.end()
  }

  @Test("B16: a view opened in the middle of a channel has its surroundings fetched before its answer")
  func openedInTheMiddle() async throws {
    let sides = try Sides(messages: 1_200)
    try await sides.open()
    let middle: Int64 = 1_700_000_000_000 + 40
    sides.here.syncRequests.opened(
      OpenView(
        id: "middle", channel: ChannelURL("c0"),
        start: OpenView.Start(at: middle, older: 40, newer: 40), isAtNewest: false), isOwedAnswer: true)
    #expect(await World.wait { (try? sides.events(.collectionAnswered)) == 2 })
    let (rows, coverage) = try #require(try sides.here.channel("c0", from: .start))
    let around = coverage.segment(at: .first(at: middle))
    #expect(around.isCovered)
    #expect(rows.count { around.range.contains($0.position) } >= 60)
    #expect(try sides.events(.hugeGap) == 0)
    try await sides.expectEqual()
    await sides.end()
  }

  @Test("B34: the same webhooks again, late, shuffled and doubled, change nothing and are all settled")
  func replayedWebhooks() async throws {
    let sides = try Sides(messages: 60, hasWebhooks: true)
    sides.there.receiver.withLock { $0 = sides.here.worker }
    try await sides.open()
    var random = Seeded(34)
    for _ in 0..<80 { sides.there.act(["c0"], &random) }
    try await sides.expectEqual()
    #expect(await World.wait { sides.there.webhooks.withLock { $0.count } >= 60 })
    #expect(await World.wait { (try? sides.noted) == 0 })
    let changes = { try sides.events(.messages) + sides.events(.messageDeleted) }
    let before = try changes()
    let webhooks = sides.there.webhooks.withLock { $0 + $0 }.shuffled(using: &random)
    for webhook in webhooks {
      guard case .success = await sides.here.worker.takeWebhook(webhook) else {
        Issue.record("a webhook is noted")
        continue
      }
    }
    #expect(await World.wait { (try? sides.noted) == 0 })
    try await sides.expectEqual()
    #expect(try changes() == before, "nothing is told twice")
    await sides.end()
  }

  @Test("B34: what a webhook named before a stop and was not looked into is looked into after the start")
  func notesOverRestart() async throws {
    var pace = PerchSide.pace
    pace.userPoll = 60_000
    let sides = try Sides(messages: 60, pace: pace)
    try await sides.open()
    let last = try #require(try sides.here.channel("c0", from: .start)?.rows.last)
    await sides.lose()
    sides.here.syncRequests.closed(view: "view", in: ChannelURL("c0"))
    sides.there.edit("c0", last.position.messageID, "edited in the dark")
    let webhook = """
      {"category":"group_channel:message_update","channel":{"channel_url":"c0"},\
      "payload":{"message_id":\(last.position.messageID)}}
      """
    #expect(await sides.here.worker.takeWebhook(Array(webhook.utf8)) == .success(1))
    #expect(try sides.noted == 1)
    try await sides.here.restart()
    #expect(try sides.noted == 1)
    sides.heal()
    #expect(await World.wait { (try? sides.noted) == 0 })
    let rows = try sides.here.channel("c0", from: .start)?.rows ?? []
    #expect(rows.last?.body.contains("edited in the dark") == true)
    await sides.end()
  }

  @Test("B34: without webhooks and at the usual pace a change in an open channel is seen within 5 s")
  func openChannelWithinFiveSeconds() async throws {
    var pace = Pace()
    pace.prefetchRate = 0
    let sides = try Sides(messages: 50, pace: pace)
    try await sides.open()
    let id = sides.there.send("c0", "news")
    let rows = { try sides.here.channel("c0", from: .start)?.rows ?? [] }
    #expect(await World.wait(seconds: 5) { (try? rows().contains { $0.position.messageID == id }) ?? false })
    sides.there.edit("c0", id, "news, edited")
    #expect(
      await World.wait(seconds: 5) { (try? rows().contains { $0.body.contains("news, edited") }) ?? false })
    sides.there.delete("c0", id)
    #expect(await World.wait(seconds: 5) { (try? !rows().contains { $0.position.messageID == id }) ?? false })
    await sides.end()
  }

  @Test("B34: with nothing open, news is seen within two polls, and a quiet user costs one request a poll")
  func quietUser() async throws {
    // One second stands for twenty: two polls every 30 s take three seconds here.
    var pace = Pace()
    pace.openPoll = 100
    pace.openPollWithWebhooks = 1_500
    pace.userPoll = 1_500
    pace.sweep = 30_000
    pace.prefetchRate = 0
    let sides = try Sides(messages: 50, pace: pace)
    for number in 1..<100 {
      try sides.there.makeChannel("d\(number)", ["alice", "bob"])
      sides.there.send("d\(number)", "first")
    }
    try await sides.here.worker.start()
    _ = sides.here.syncRequests.seen(UserID("alice"))
    #expect(
      await World.wait { sides.here.syncRequests.connection(of: UserID("alice")).progress.phase == .steady })
    let id = sides.there.send("d42", "news")
    let rows = { try sides.here.channel("d42", from: .start)?.rows ?? [] }
    #expect(await World.wait(seconds: 3) { (try? rows().contains { $0.position.messageID == id }) ?? false })
    // Two minutes of quiet: at most 10 requests, as an hour may have 300.
    let before = sides.here.requests
    try await Task.sleep(for: .seconds(6))
    let asked = sides.here.requests - before
    #expect((3...10).contains(asked), "\(asked) requests")
    await sides.end()
  }

  @Test("B64: a channel that the self-check reset is fetched again at once, as it is upstream")
  func healed() async throws {
    let sides = try Sides(messages: 60)
    try await sides.open()
    try await sides.expectEqual()
    try Connection(path: sides.here.directory + "/perch.db", mode: .readWrite).execute(
      """
      UPDATE message SET body = CAST('"' AS BLOB) WHERE message_id % 2 = 0;
      UPDATE channel SET body = CAST('"' AS BLOB);
      """)
    let report = try sides.here.cache.check()
    #expect(!report.isSound && report.isWell, "\(report.findings)")
    sides.here.syncRequests.healed()
    try await sides.expectEqual()
    #expect(await World.wait { (try? sides.noted) == 0 })
    #expect(try sides.here.cache.check().isSound)
    await sides.end()
  }
}
