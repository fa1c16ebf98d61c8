import ChatModel
import TestSupport
import Testing

@testable import ChatCache

/// What is remembered of changes for one user alone.
@Suite struct OwnChangesTests {
  private func change(_ user: Int64?, _ kind: ChangeKind = .outbox) -> Change {
    Change(kind, .localFailed, channel: ChannelKey(1), user: user.map { UserKey($0) })
  }

  @Test("B51: a change for a user alone is remembered, and none is denied that was forgotten")
  func remembered() {
    let changes = OwnChanges(after: 10)
    #expect(changes.mayHave(UserKey(1), after: 9) && !changes.mayHave(UserKey(1), after: 10))
    changes.note(change(1), at: 11)
    changes.note(change(2, .membership), at: 12)
    changes.note(change(nil, .messages), at: 13)
    #expect(changes.mayHave(UserKey(1), after: 10) && !changes.mayHave(UserKey(1), after: 11))
    #expect(!changes.mayHave(UserKey(2), after: 10) && !changes.mayHave(UserKey(3), after: 10))
    for user in 100..<(100 + 40_000) as Range<Int64> {
      changes.note(change(user), at: user)
      #expect(changes.mayHave(UserKey(user), after: user - 1))
    }
    #expect(changes.mayHave(UserKey(1), after: 10), "forgotten, and not denied")
    #expect(!changes.mayHave(UserKey(1), after: 40_099))
  }

  @Test("B51: in any order of changes, nothing is denied that is there", arguments: 1...10)
  func anyOrder(seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    let world = try LogTrimmingTests.World(Retention())
    defer { world.cache.close() }
    var log: [(sequence: Int64, change: Change)] = []
    for _ in 0..<100 {
      let kind = [ChangeKind.outbox, .membership, .messages, .membershipLost].randomElement(using: &random)!
      let told = change([1, 2, nil].randomElement(using: &random)!, kind)
      log.append((try world.cache.write { try $0.append(told) }, told))
      let since = Int64.random(in: log[0].sequence - 2...log.last!.sequence, using: &random)
      let user = UserKey(.random(in: 1...3, using: &random))
      let isThere = log.contains {
        $0.sequence > since && $0.change.user == user && $0.change.kind != .membership
      }
      let scope = LogScope(view: "v", of: user, in: ChannelKey(1))
      #expect(try world.cache.read { try $0.hasOwn(scope, after: since) } == isThere)
    }
  }
}
