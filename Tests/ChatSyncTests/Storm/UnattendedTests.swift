import ChatCache
import ChatModel
import Platform
import Testing

@testable import ChatSync

/// Webhooks that come while the upstream cannot be asked, or while no user is connected.
@Suite(.timeLimit(.minutes(5)))
struct UnattendedTests {
  private let alice = UserID("alice")
  private let url = ChannelURL("c0")

  /// One channel of 200 messages, all cached, without a view.
  private func sides(hasChangelogs: Bool = true) async throws -> Sides {
    let sides = try Sides(messages: 200)
    var weather = OriginSide.Weather()
    weather.hasChangelogs = hasChangelogs
    try sides.there.calm(weather)
    try await sides.open()
    sides.here.syncRequests.closed(view: "view", in: url)
    try await sides.expectEqual()
    return sides
  }

  /// Edits the oldest cached messages, each with its webhook.
  private func edit(_ count: Int, _ sides: Sides) async throws {
    for row in try #require(try sides.here.channel("c0", from: .start)).rows.prefix(count) {
      let id = row.position.messageID
      sides.there.edit("c0", id, "edited \(id)")
      let webhook = """
        {"category":"group_channel:message_update","channel":{"channel_url":"c0"},\
        "payload":{"message_id":\(id)}}
        """
      #expect(await sides.here.worker.takeWebhook(Array(webhook.utf8)) == .success(1))
    }
  }

  @Test(
    "B4, B34: webhooks of a channel of stopped users are one note, ask nothing, and are looked into later",
    arguments: [true, false])
  func stopped(hasChangelogs: Bool) async throws {
    let sides = try await sides(hasChangelogs: hasChangelogs)
    try await sides.here.worker.disconnect(alice)
    try await edit(120, sides)
    #expect(try sides.noted == 1)
    try await sides.here.restart()
    try await edit(10, sides)
    #expect(try sides.noted == 1)
    #expect(await sides.here.worker.plan.channels.urls.isEmpty, "nothing is to be asked there")
    sides.here.syncRequests.connect(alice, within: 0) { _ in }
    try await sides.expectEqual()
    #expect(await World.wait { (try? sides.noted) == 0 })
    await sides.end()
  }

  @Test("B34: however many webhooks come while the link is down, the notes stay few, and all of it is found")
  func offline() async throws {
    let sides = try await sides()
    await sides.lose()
    try await edit(190, sides)
    #expect(try sides.noted <= 101)
    try await sides.here.restart()
    #expect(try sides.noted <= 101)
    try await edit(190, sides)
    #expect(try sides.noted <= 101)
    sides.heal()
    try await sides.expectEqual()
    #expect(await World.wait { (try? sides.noted) == 0 })
    await sides.end()
  }

  @Test("B4: a channel that was nobody's is asked for again when a new user lists it")
  func takenUp() async throws {
    let sides = try await sides()
    try await sides.here.worker.disconnect(alice)
    let id = sides.there.send("c0", "news")
    _ = sides.here.syncRequests.seen(UserID("bob"))
    #expect(
      await World.wait {
        (try? sides.here.channel("c0", from: .start)?.rows.contains { $0.position.messageID == id }) ?? false
      })
    await sides.end()
  }

  @Test("B1, B4: a channel goes with the last user here who was in it, and comes back with the next, whole")
  func left() async throws {
    let sides = try await sides()
    #expect(try await sides.here.worker.forget(alice, isForced: true) == 0)
    try sides.here.cache.trim()
    #expect(try sides.here.channel("c0", from: .start)?.rows.isEmpty == true)
    // By now the jobs that ran when the user left have ended.
    try await Task.sleep(for: .milliseconds(300))
    let asked = sides.here.requests
    let webhook = #"{"category":"group_channel:message_send","channel":{"channel_url":"c0"}}"#
    #expect(await sides.here.worker.takeWebhook(Array(webhook.utf8)) == .success(0), "nobody's business")
    #expect(sides.here.requests == asked)
    _ = sides.here.syncRequests.seen(alice)
    try await sides.expectEqual()
    await sides.end()
  }
}
