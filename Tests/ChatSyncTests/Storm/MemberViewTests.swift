import ChatCache
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatSync
@testable import Origin

/// A server that reports a channel's change without the fields that depend on the asking user.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct MemberViewTests {
  private func floor(_ sides: Sides) throws -> Int64 {
    try sides.here.memberships(of: "alice").first { $0.url == "c0" }?.floor ?? -1
  }

  private func withhold(_ sides: Sides, at path: String) throws {
    let fault: [String: Value] = ["kind": .string("no_member_view"), "path": .string(path)]
    try sides.there.set(OriginSide.Weather(), [.object(fault)], seed: 7)
  }

  @Test(
    "B23, B35: a changelog's channel without the user's floor is asked for alone until the floor is told",
    arguments: [false, true])
  func floorIsAskedFor(alsoWithheldAlone: Bool) async throws {
    let sides = try Sides(messages: 30)
    try await sides.open()
    #expect(try floor(sides) == 0)
    try withhold(sides, at: alsoWithheldAlone ? "/v3/*" : "*/my_group_channels/changelogs")
    try sides.there.perform(
      .write(ReadMarks.resetHistory), ["channel_url": "c0"], ["user_id": .string("alice")])
    if alsoWithheldAlone {
      try await Task.sleep(for: .seconds(1))
      #expect(try floor(sides) == 0, "nobody told it")
      try sides.there.calm(OriginSide.Weather())
    }
    #expect(await World.wait { (try? floor(sides)) ?? 0 > 0 })
    #expect(await World.wait { (try? sides.noted) == 0 }, "the note is done once the floor is known")
    await sides.end()
  }

  @Test("a server that never tells what only the user sees is not asked for it")
  func neverTold() {
    let (bare, told) = (ChannelRecord.named("c0", unread: nil), ChannelRecord.named("c1", unread: 3))
    var views = MemberViews()
    views.note([bare])
    #expect(!views.areExpected)
    views.note([told, bare])
    #expect(views.areExpected)
    for _ in 0..<9 { views.note([bare], isAlone: true) }
    #expect(views.areExpected)
    views.note([bare], isAlone: true)
    views.note([told])
    #expect(!views.areExpected, "its lists tell it, its single channels do not")
    views.note([told], isAlone: true)
    for _ in 0..<99 { views.note([bare], isAlone: true) }
    #expect(views.areExpected)
    views.note([bare], isAlone: true)
    #expect(!views.areExpected, "it stopped telling it")
    views.note([told], isAlone: true)
    #expect(views.areExpected)
  }
}

extension ChannelRecord {
  /// A complete channel record, whose only field for its user is the unread count.
  fileprivate static func named(_ url: String, unread: Int64?) -> ChannelRecord {
    var record = ChannelRecord(
      url: ChannelURL(url), name: "", customType: "", createdAt: 0, isDistinct: false, isPublic: false,
      isSuper: false, isFrozen: false, memberCount: 1, joinedMemberCount: 1, body: [], lastMessage: .none,
      readReceipts: nil, metadata: nil, members: nil,
      membership: MembershipRecord(
        state: nil, isOperator: nil, isMuted: nil, hiddenState: nil, floorAt: nil, lastReadAt: nil,
        unread: unread, mentions: nil, joinedAt: nil, invitedAt: nil))
    record.isWhole = true
    return record
  }
}
