import ChatCache
import ChatModel
import Platform
import Testing

@testable import ChatSync

/// The upstream requests of opening a view.
@Suite struct OpeningCostTests {
  @Test("B16: opening a view of a channel that is wholly cached costs at most three upstream requests")
  func cost() async throws {
    // All polls are far away, so that only the opening makes requests.
    var pace = PerchSide.pace
    pace.openPoll = 600_000
    pace.openPollWithWebhooks = 600_000
    pace.userPoll = 600_000
    pace.sweep = 600_000
    pace.verify = 600_000
    let sides = try Sides(messages: 120, pace: pace)
    try await sides.open()
    #expect(await World.wait { (try? sides.events(.collectionAnswered)) == 1 })
    for view in 2...6 {
      // Earlier jobs must not count as costs of this opening.
      #expect(await World.wait { await sides.here.worker.isQuiet })
      let before = sides.here.requests
      sides.here.syncRequests.opened(
        OpenView(id: "view-\(view)", channel: ChannelURL("c0"), isAtNewest: true), isOwedAnswer: true)
      #expect(await World.wait { (try? sides.events(.collectionAnswered)) == view })
      #expect(await World.wait { await sides.here.worker.isQuiet })
      #expect(sides.here.requests - before <= 3, "view \(view)")
    }
    await sides.end()
  }
}
