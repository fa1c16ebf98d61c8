import ChatModel
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// Users who leave a channel and come back at once, while what happens there is told by webhooks that are
/// dropped, because no user here is in the channel. No poll comes in between.
@Suite(.timeLimit(.minutes(3)), .serialized)
struct ReturnTests {
  private let url = ChannelURL("c0")

  private static var pace: Pace {
    var pace = PerchSide.pace
    pace.sweep = 600_000
    (pace.openPoll, pace.openPollWithWebhooks, pace.verify) = (600_000, 600_000, 600_000)
    return pace
  }

  /// `seed`: with 0 every channel is crowded.
  private func sides(seed: Int, userPoll: Int64 = 600_000, jobs: Int = 4) async throws -> Sides {
    var pace = Self.pace
    (pace.userPoll, pace.jobs) = (userPoll, jobs)
    let sides = try Sides(messages: 30, pace: pace, hasWebhooks: true, seed: seed)
    sides.there.receiver.withLock { $0 = sides.here.worker }
    try await sides.open()
    try await sides.expectEqual()
    return sides
  }

  private func isIn(_ user: String, _ sides: Sides) -> Bool {
    // If reading fails, wait on.
    (try? sides.here.cache.read { try $0.connectedMembers(of: url).contains(UserID(user)) }) ?? false
  }

  private func rows(_ sides: Sides) throws -> [PerchSide.Row] {
    try #require(try sides.here.channel("c0", from: .start)).rows
  }

  /// Whether a note says that messages of the channel may have changed.
  private func isMissedNoted(_ sides: Sides) -> Bool {
    // If reading fails, wait on.
    (try? sides.here.cache.read { try $0.webhookNotes() })?.contains { $0.kind == .missed } ?? false
  }

  private func leave(_ user: String, _ sides: Sides) async throws {
    let users: [String: Value] = ["user_ids": .array([.string(user)])]
    try sides.there.perform(.write(Members.leave), ["channel_url": "c0"], users)
    #expect(await World.wait { !isIn(user, sides) })
  }

  private func comeBack(_ user: String, _ sides: Sides) async throws {
    let users: [String: Value] = ["user_ids": .array([.string(user)])]
    try sides.there.perform(.write(Members.invite), ["channel_url": "c0"], users)
    #expect(await World.wait { isIn(user, sides) })
  }

  /// Connects dave, who is in another channel, and closes alice's view.
  private func connectDave(_ sides: Sides) async throws {
    sides.here.syncRequests.closed(view: "view", in: url)
    try sides.there.makeChannel("c9", ["dave"])
    _ = sides.here.syncRequests.seen(UserID("dave"))
    let phase = { sides.here.syncRequests.connection(of: UserID("dave")).progress.phase }
    #expect(await World.wait { phase() == .steady })
  }

  private func expectFound(_ sides: Sides) async {
    #expect(await World.wait { (try? rows(sides).contains { $0.body.contains("edited") }) == true })
    #expect(await World.wait { !isMissedNoted(sides) })
  }

  /// What changes while no user here is in the channel.
  enum Change: CaseIterable { case sent, edited, deleted }

  private func change(_ change: Change, _ sides: Sides) async throws {
    let id = try #require(try rows(sides).first).position.messageID
    switch change {
    case .sent: sides.there.send("c0", "meanwhile")
    case .edited: sides.there.edit("c0", id, "edited")
    case .deleted: sides.there.delete("c0", id)
    }
    // The webhook comes within this time, and is dropped.
    try await Task.sleep(for: .milliseconds(200))
  }

  @Test(
    "B25, B34: who comes back is told what happened meanwhile, whether a view stayed open or not",
    arguments: Change.allCases, [0, 3])
  func back(_ change: Change, seed: Int) async throws {
    for isOpen in [true, false] {
      let sides = try await sides(seed: seed)
      if !isOpen { sides.here.syncRequests.closed(view: "view", in: url) }
      try await leave("alice", sides)
      try await self.change(change, sides)
      try await comeBack("alice", sides)
      try await sides.expectEqual("\(isOpen)")
      await sides.end()
    }
  }

  @Test(
    "B4, B34: what was noted while nobody was connected is asked for when another user comes",
    arguments: [true, false])
  func another(byWebhook: Bool) async throws {
    let sides = try await sides(seed: 3, userPoll: byWebhook ? 600_000 : 300)
    try await connectDave(sides)
    if !byWebhook {
      // Only polls tell that dave comes and goes.
      sides.there.receiver.withLock { $0 = nil }
      try await comeBack("dave", sides)
    }
    try await sides.here.worker.disconnect(UserID("alice"))
    if !byWebhook {
      #expect(await World.wait { await sides.here.worker.isQuiet })
      try await leave("dave", sides)
    }
    let id = try #require(try rows(sides).first).position.messageID
    sides.there.edit("c0", id, "edited")
    if !byWebhook {
      let webhook = """
        {"category":"group_channel:message_update","channel":{"channel_url":"c0"},"payload":{"message_id":\(id)}}
        """
      #expect(await sides.here.worker.takeWebhook(Array(webhook.utf8)) == .success(1))
    }
    #expect(await World.wait { isMissedNoted(sides) })
    try await comeBack("dave", sides)
    await expectFound(sides)
    await sides.end()
  }

  @Test("B4, B34: it is asked for, too, if a poll finds the other user before the webhook is looked into")
  func foundByPoll() async throws {
    let sides = try await sides(seed: 3, userPoll: 1_500, jobs: 1)
    try await connectDave(sides)
    try await sides.here.worker.disconnect(UserID("alice"))
    let id = try #require(try rows(sides).first).position.messageID
    sides.there.edit("c0", id, "edited")
    #expect(await World.wait { isMissedNoted(sides) })
    let delay: [String: Value] = [
      "kind": .string("delay"), "path": .string("/v3/users/dave/*"), "milliseconds": .integer(600),
    ]
    try sides.there.set(OriginSide.Weather(), [.object(delay)], seed: 1)
    // The one job is a poll of dave's, whose answer has not come.
    #expect(await World.wait { await sides.here.worker.tasks.keys.contains { $0.user == UserID("dave") } })
    try await comeBack("dave", sides)
    await expectFound(sides)
    await sides.end()
  }

  @Test("B16, B34: a view that stayed open is listed again when its user comes back, beside a stopped one")
  func stayedOpen() async throws {
    let sides = try await sides(seed: 3)
    try await connectDave(sides)
    try await comeBack("dave", sides)
    let answered = try sides.events(.collectionAnswered)
    let view = OpenView(id: "dave", channel: url, isAtNewest: true)
    sides.here.syncRequests.opened(view, isOwedAnswer: true)
    #expect(await World.wait { (try? sides.events(.collectionAnswered)) == answered + 1 })
    try await sides.here.worker.disconnect(UserID("alice"))
    try await leave("dave", sides)
    #expect(await World.wait { await sides.here.worker.isQuiet })
    // This message's webhook is lost.
    sides.there.receiver.withLock { $0 = nil }
    sides.there.send("c0", "meanwhile")
    let users: [String: Value] = ["user_ids": .array([.string("dave")])]
    try sides.there.perform(.write(Members.invite), ["channel_url": "c0"], users)
    let webhook = """
      {"category":"group_channel:join","channel":{"channel_url":"c0"},"users":[{"user_id":"dave"}]}
      """
    #expect(await sides.here.worker.takeWebhook(Array(webhook.utf8)) == .success(1))
    #expect(await World.wait { (try? rows(sides).contains { $0.body.contains("meanwhile") }) == true })
    await sides.end()
  }
}
