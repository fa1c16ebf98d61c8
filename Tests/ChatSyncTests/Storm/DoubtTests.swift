import ChatCache
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatSync
@testable import Origin

/// A stale, empty or shortened answer removes no message until the upstream confirms it (B27).
@Suite(.timeLimit(.minutes(5)), .serialized)
struct DoubtTests {
  private static let listing = "/v3/group_channels/*/messages"

  private func set(_ there: OriginSide, _ fault: [String: Value], _ weather: OriginSide.Weather) throws {
    var fault = fault
    fault["path"] = fault["path"] ?? .string(Self.listing)
    try there.set(weather, [.object(fault)], seed: 7)
  }

  private func stored(_ sides: Sides) throws -> Int {
    try sides.here.channel("c0", from: .start)?.rows.count ?? 0
  }

  /// A pace without polls: none gets the empty page, or repairs the result of the first listing.
  private static var withoutPolls: Pace {
    var pace = PerchSide.pace
    (pace.openPoll, pace.openPollWithWebhooks, pace.userPoll) = (60_000, 60_000, 60_000)
    return pace
  }

  /// A channel whose newest messages are stored, and an idle worker.
  private func prefetched(messages: Int) async throws -> Sides {
    let sides = try Sides(messages: messages, pace: Self.withoutPolls)
    try await sides.open()
    #expect(await World.wait { (try? stored(sides)) ?? 0 >= 150 })
    #expect(await World.wait { await sides.here.worker.isQuiet })
    return sides
  }

  private func doubted(_ sides: Sides) throws -> Int {
    try sides.here.cache.read { try $0.doubted(in: ChannelURL("c0"), limit: 100).count }
  }

  @Test(
    "B27: empty listings take no message away, whether there are changelogs or not", arguments: [true, false])
  func empty(hasChangelogs: Bool) async throws {
    var weather = OriginSide.Weather()
    weather.hasChangelogs = hasChangelogs
    let sides = try Sides(messages: 30)
    try sides.there.calm(weather)
    try await sides.open()
    try await sides.expectEqual()
    try set(sides.there, ["kind": .string("empty_page")], weather)
    for _ in 0..<20 {
      try await Task.sleep(for: .milliseconds(50))
      #expect(try stored(sides) == 30)
    }
    #expect(try sides.events(.messageDeleted) == 0)
    try sides.there.calm(weather)
    sides.there.send("c0", "after")
    try await sides.expectEqual()
    await sides.end()
  }

  @Test("B27: an empty answer does not make a channel look empty that was never listed")
  func emptyAtFirst() async throws {
    let sides = try Sides(messages: 30, pace: Self.withoutPolls)
    try set(sides.there, ["kind": .string("empty_page"), "count": .integer(1)], OriginSide.Weather())
    try await sides.open()
    #expect(await World.wait { (try? stored(sides)) == 30 })
    try await sides.expectEqual()
    let line = try #require(try sides.here.cache.read { try $0.line(of: ChannelURL("c0")) })
    #expect(line.rows == 30)
    await sides.end()
  }

  @Test("B14, B27: empty pages below the covered messages do not prove that the channel begins there")
  func emptyBelow() async throws {
    let sides = try await prefetched(messages: 300)
    try set(sides.there, ["kind": .string("empty_page"), "count": .integer(3)], OriginSide.Weather())
    func older() async throws -> Bool {
      let line = try #require(try sides.here.cache.read { try $0.line(of: ChannelURL("c0")) })
      let oldest = try #require(line.oldest)
      _ = await sides.here.worker.fetch(
        MessageSyncRequest(ChannelURL("c0"), .older(than: oldest, rows: 100)))
      return try stored(sides) == 300
    }
    let before = try stored(sides)
    #expect(try await !older() && stored(sides) == before)
    let line = try #require(try sides.here.cache.read { try $0.line(of: ChannelURL("c0")) })
    #expect(!line.reachesBeginning, "older messages were not shown")
    for _ in 0..<5 where try await !older() {}
    #expect(try stored(sides) == 300)
    await sides.end()
  }

  @Test(
    "B27: empty pages before a moment that was never listed do not prove that nothing is there",
    arguments: [3, 4])
  func emptyBefore(pages: Int64) async throws {
    let sides = try await prefetched(messages: 600)
    let before = try stored(sides)
    let moment = Int64(1_700_000_000_010)
    func look() async throws -> Bool {
      _ = await sides.here.worker.fetch(
        MessageSyncRequest(ChannelURL("c0"), .around(moment, older: 20, newer: 0)))
      return try sides.here.cache.read(UserID("alice"), in: ChannelURL("c0")) { _, access in
        access?.coverage.shows(.first(at: moment)) ?? false
      }
    }
    #expect(before < 500, "the moment is in the gap")
    try set(sides.there, ["kind": .string("empty_page"), "count": .integer(pages)], OriginSide.Weather())
    #expect(try await !look() && stored(sides) == before)
    #expect(try await look() && stored(sides) > before)
    await sides.end()
  }

  @Test("B27: an empty page of a channel that has messages is asked for again at once", arguments: [1, 2])
  func emptyOnce(pages: Int64) async throws {
    let sides = try await prefetched(messages: 300)
    let before = try stored(sides)
    let oldest = try #require(try sides.here.cache.read { try $0.line(of: ChannelURL("c0"))?.oldest })
    try set(sides.there, ["kind": .string("empty_page"), "count": .integer(pages)], OriginSide.Weather())
    _ = await sides.here.worker.fetch(MessageSyncRequest(ChannelURL("c0"), .older(than: oldest, rows: 100)))
    #expect(try stored(sides) > before)
    await sides.end()
  }

  @Test("B14 B58: empty pages of a cleared channel do not prove that it is empty: its last message is there")
  func emptyAfterClear() async throws {
    let sides = try await prefetched(messages: 200)
    let url = ChannelURL("c0")
    func beginsCovered() throws -> Bool {
      try sides.here.cache.read(UserID("alice"), in: url) { _, access in
        access?.coverage.shows(.start) ?? false
      }
    }
    try set(sides.there, ["kind": .string("empty_page")], OriginSide.Weather())
    try sides.here.cache.write { try $0.clear(url) }
    for _ in 0..<3 {
      _ = await sides.here.worker.fetch(MessageSyncRequest(url, .newest))
      #expect(try !beginsCovered())
    }
    try sides.there.calm(OriginSide.Weather())
    #expect(
      await World.wait {
        _ = await sides.here.worker.fetch(MessageSyncRequest(url, .newest))
        return (try? stored(sides)) ?? 0 > 0
      })
    await sides.end()
  }

  @Test("B27: listings that are behind take away nothing that came by itself, and no message is lost")
  func stale() async throws {
    var weather = OriginSide.Weather()
    weather.hasChangelogs = false
    let sides = try Sides(messages: 5, hasWebhooks: true)
    try sides.there.calm(weather)
    try await sides.open()
    sides.there.receiver.withLock { $0 = sides.here.worker }
    try set(
      sides.there,
      ["kind": .string("stale_page"), "milliseconds": .integer(1_000), "probability": .double(0.5)], weather)
    for number in 0..<12 {
      sides.there.send("c0", "live \(number)")
      try await Task.sleep(for: .milliseconds(150))
    }
    #expect(await World.wait { (try? stored(sides)) == 17 }, "while listings go on to be behind")
    #expect(try sides.events(.messageDeleted) == 0, "nothing was ever told as deleted")
    try sides.there.calm(weather)
    try await sides.expectEqual()
    await sides.end()
  }

  @Test("B27: what listings lack goes when the upstream says so by its id, and nothing is doubted then")
  func gone() async throws {
    var weather = OriginSide.Weather()
    weather.hasChangelogs = false
    let sides = try Sides(messages: 30)
    try sides.there.calm(weather)
    try await sides.open()
    for id in [3, 9, 30] as [Int64] { sides.there.delete("c0", id) }
    #expect(await World.wait { (try? stored(sides)) == 27 })
    #expect(await World.wait { (try? doubted(sides)) == 0 })
    #expect(try sides.events(.messageDeleted) == 3)
    await sides.end()
  }

  @Test("B27: where messages cannot be asked for by their ids, a second listing settles it")
  func secondListing() async throws {
    var weather = OriginSide.Weather()
    weather.hasChangelogs = false
    let sides = try Sides(messages: 30)
    try sides.there.calm(weather)
    try await sides.open()
    let asked = "/v3/group_channels/c0/messages/9"
    try set(
      sides.there, ["kind": .string("deny"), "code": .integer(400108), "path": .string(asked)], weather)
    sides.there.delete("c0", 9)
    #expect(await World.wait { (try? stored(sides)) == 29 })
    #expect(try sides.events(.messageDeleted) == 1)
    await sides.end()
  }

  @Test(
    "B27, B35: a message refused by its id as a wrong key is leaves the link alone; a listing settles it",
    arguments: [401, 403])
  func refusedByID(status: Int64) async throws {
    var weather = OriginSide.Weather()
    weather.hasChangelogs = false
    let sides = try Sides(messages: 30)
    try sides.there.calm(weather)
    try await sides.open()
    let byID = "/v3/group_channels/c0/messages/9"
    try set(
      sides.there,
      [
        "kind": .string("deny"), "status": .integer(status), "body": .string("bare"), "path": .string(byID),
      ], weather)
    let linkChanges = try sides.events(.connection)
    sides.there.delete("c0", 9)
    #expect(await World.wait { (try? stored(sides)) == 29 })
    #expect(try sides.events(.connection) == linkChanges)
    await sides.end()
  }

  @Test("B27, B35: where the answer about the newest doubted message cannot be read, all others are settled")
  func unreadableAnswer() async throws {
    var weather = OriginSide.Weather()
    weather.hasChangelogs = false
    let sides = try Sides(messages: 30)
    try sides.there.calm(weather)
    try await sides.open()
    let asked = "/v3/group_channels/c0/messages/29"
    try set(
      sides.there,
      [
        "kind": .string("deny"), "status": .integer(400), "body": .string("html"), "path": .string(asked),
      ], weather)
    for id in [3, 9, 29] as [Int64] { sides.there.delete("c0", id) }
    #expect(await World.wait { (try? stored(sides)) == 27 })
    #expect(await World.wait { (try? doubted(sides)) == 0 })
    await sides.end()
  }

  /// Lists the oldest messages, because without polls nothing else does.
  private func lookAtOldest(_ sides: Sides) async {
    let oldest = MessageSyncRequest.Stretch.around(1_700_000_000_000, older: 20, newer: 20)
    _ = await sides.here.worker.fetch(MessageSyncRequest(ChannelURL("c0"), oldest))
  }

  @Test(
    "B27: a reaction that a listing lacks goes when the message is asked for, or with a second listing",
    arguments: [true, false])
  func reactionTakenBack(isTold: Bool) async throws {
    let sides = try await prefetched(messages: 300)
    if !isTold {
      let asked: Value = .string("/v3/group_channels/c0/messages/9")
      try set(
        sides.there, ["kind": .string("deny"), "code": .integer(400108), "path": asked],
        OriginSide.Weather())
    }
    func isLiked() throws -> Bool {
      try sides.here.channel("c0", from: .start)?.rows.contains { $0.parts[0].contains("like") } ?? false
    }
    sides.there.react("c0", 9, isAdded: true)
    await lookAtOldest(sides)
    #expect(try isLiked())
    sides.there.react("c0", 9, isAdded: false)
    await lookAtOldest(sides)
    if isTold {
      #expect(await World.wait { (try? isLiked()) == false })
    } else {
      #expect(try isLiked())
      await lookAtOldest(sides)
      #expect(try !isLiked())
    }
    await sides.end()
  }

  @Test("B27: an older page that is behind does not take a thread back")
  func staleThread() async throws {
    let sides = try await prefetched(messages: 300)
    let before = Clock.system.wallMilliseconds()
    try await Task.sleep(for: .milliseconds(20))
    sides.there.send("c0", "a reply", by: "bob", parent: 9)
    func replies() throws -> Bool {
      try sides.here.channel("c0", from: .start)?.rows.first { $0.position.messageID == 9 }?.parts[2]
        .contains(#""reply_count":1"#) ?? false
    }
    await lookAtOldest(sides)
    #expect(try replies())
    let behind: Value = .integer(Clock.system.wallMilliseconds() - before)
    try set(sides.there, ["kind": .string("stale_page"), "milliseconds": behind], OriginSide.Weather())
    await lookAtOldest(sides)
    #expect(try replies())
    await sides.end()
  }

  @Test("B21: a message wrongly called deleted comes back when it is shown and asked for again")
  func back() async throws {
    let sides = try Sides(messages: 5)
    try await sides.open()
    let url = ChannelURL("c0")
    try sides.here.cache.accept { try $0.delete(message: 5, in: url, .messageDeleted) }
    #expect(try stored(sides) == 4)
    sides.there.send("c0", "next")
    try await sides.expectEqual()
    #expect(try stored(sides) == 6)
    await sides.end()
  }

  @Test("B24: messages of an unknown type are kept as they are, with all that is older")
  func unknownType() async throws {
    let sides = try Sides(messages: 300)
    let kind: [String: Value] = [
      "kind": .string("foreign_items"), "spoils": .array([.string("unknown_type")]),
    ]
    try set(sides.there, kind, OriginSide.Weather())
    try await sides.open()
    #expect(await World.wait { (try? stored(sides)) ?? 0 >= 150 })
    let bodies = try #require(try sides.here.channel("c0", from: .start)).rows.map(\.body)
    #expect(bodies.contains { $0.contains(#""type":"other""#) && $0.contains(#""type":"HOLO""#) })
    #expect(bodies.contains { $0.contains(#""type":"user""#) })
    await sides.end()
  }

  @Test("B24: a claim ends at an item that cannot be read; what is older is there, behind a gap")
  func unreadable() async throws {
    let sides = try Sides(messages: 300)
    let kind: [String: Value] = [
      "kind": .string("foreign_items"), "spoils": .array([.string("missing")]),
    ]
    try set(sides.there, kind, OriginSide.Weather())
    try await sides.here.worker.start()
    _ = sides.here.syncRequests.seen(UserID("alice"))
    #expect(await World.wait { (try? stored(sides)) ?? 0 > 100 })
    let (rows, coverage) = try #require(try sides.here.channel("c0", from: .start))
    for segment in coverage.segments where segment.isCovered {
      let times = rows.map(\.position).filter { segment.range.contains($0) }.map(\.messageID)
      guard let first = times.first, let last = times.last else { continue }
      #expect(times == Array(first...last), "no message of a covered stretch is missing")
    }
    #expect(coverage.gaps.count > 1)
    try sides.there.calm(OriginSide.Weather())
    sides.here.syncRequests.opened(
      OpenView(id: "view", channel: ChannelURL("c0"), isAtNewest: true), isOwedAnswer: true)
    #expect(await World.wait { (try? stored(sides)) ?? 0 >= 150 })
    await sides.end()
  }
}
