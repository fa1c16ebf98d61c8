import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatSync

/// The first user in line is the one that a search through all users would find (B30).
@Suite struct UserTableTests {
  private static func change(_ table: inout UserTable, _ user: UserID, _ random: inout SeededRandom) {
    let time = Int64.random(in: 0..<20, using: &random)
    switch Int.random(in: 0..<10, using: &random) {
    case 0: table[user] = nil
    case 1: table[user]?.isBusy.toggle()
    case 2: table[user]?.isHeld.toggle()
    case 3: table[user]?.pollAt = time
    case 4: table[user]?.phase = .listing(after: nil, done: 0)
    case 5: table[user]?.phase = Bool.random(using: &random) ? .steady : .sweeping
    case 6: table[user]?.isCached.toggle()
    case 7: table[user]?.hasUnsent.toggle()
    case 8:
      if Bool.random(using: &random) {
        table[user]?.state.stop()
      } else {
        _ = table[user]?.state.refused(now: time, isCached: true)
      }
    default:
      table[user] = UserWork(
        state: UserState(now: 0), isSynced: true, pollAt: time, wait: Backoff(maximum: 1_000))
    }
  }

  private static func isListing(_ work: UserWork) -> Bool {
    switch work.phase {
    case .listing, .sweeping: true
    default: false
    }
  }

  @Test("B30: whoever waits longest is first, of those who list and of the others", arguments: 1...20)
  func first(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = UserTable()
    for now in 0..<3_000 {
      Self.change(&table, UserID("u\(Int.random(in: 0..<30, using: &random))"), &random)
      let now = Int64(now % 20)
      #expect(table.refused == Set(table.works.filter { $0.value.state.refusedAt != nil }.keys))
      for isListing in [true, false] {
        let due = table.works.filter {
          $0.value.isFree && $0.value.pollAt <= now && Self.isListing($0.value) == isListing
        }
        let found = table.next(isListing: isListing, now: now)
        #expect((found == nil) == due.isEmpty)
        guard let found, let turn = due[found]?.turn else { continue }
        #expect(!due.values.contains { $0.turn < turn })
      }
    }
  }
}
