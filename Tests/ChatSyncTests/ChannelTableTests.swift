import ChatCache
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatSync

/// The table's kept results equal those of a search through all channels (B30, B33).
@Suite struct ChannelTableTests {
  private static func change(_ table: inout ChannelTable, _ url: ChannelURL, _ random: inout SeededRandom) {
    let time = Int64.random(in: 0..<20, using: &random)
    switch Int.random(in: 0..<18, using: &random) {
    case 0: table[url] = nil
    case 1: table[url]?.isPrefetched.toggle()
    case 2: table[url]?.isOfNobody.toggle()
    case 3:
      table[url]?.lastMessageAt = time
      table[url]?.isUsed = Bool.random(using: &random)
    case 4: table[url]?.checkAt = Bool.random(using: &random) ? time : nil
    case 5: table[url]?.isRefreshDue.toggle()
    case 6: table[url]?.messages.append(time)
    case 7: table[url]?.messages.removeAll()
    case 8: table[url]?.verifyAt = Bool.random(using: &random) ? time : nil
    case 9: table[url]?.settleAt = Bool.random(using: &random) ? time : nil
    case 10: table[url]?.fills = Bool.random(using: &random) ? [time] : []
    case 11:
      table[url]?.views["v"] =
        Bool.random(using: &random) ? OpenView(id: "v", channel: url, isAtNewest: true) : nil
    case 12: table[url]?.isBusy.toggle()
    case 13:
      table[url]?.isNoted.toggle()
      if Bool.random(using: &random) { table[url]?.isAwaited.toggle() }
    case 14: table[url]?.isResting.toggle()
    case 15: table[url]?.retryAt = Bool.random(using: &random) ? time : nil
    case 16:
      let held: [HeldBack.ChannelJob] = [.check, .prefetch, .message(time), .fill(time), .settle]
      let job = held.randomElement(using: &random)!
      if Bool.random(using: &random) {
        table[url]?.heldBack.hold(job, maximum: 10, now: time) { _ in 5 }
      } else {
        table[url]?.heldBack.letGo(job)
      }
    default: table[url, default: ChannelWork(wait: Backoff(maximum: 1_000))].lastMessageAt = time
    }
  }

  /// The moment at which a prefetch of the channel may begin; nil: none may.
  private static func prefetchAt(_ work: ChannelWork) -> Int64? {
    guard !work.isPrefetched, !work.isOfNobody, !work.isBusy else { return nil }
    return max(work.heldBack.moment(.prefetch, 0), work.retryAt ?? 0)
  }

  @Test(
    "B30, B33: it knows what is to be done first, who looks, and who is prefetched next", arguments: 1...20)
  func kept(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = ChannelTable()
    var watched: Set<ChannelURL> = []
    for step in 0..<3_000 {
      Self.change(&table, ChannelURL("c\(Int.random(in: 0..<30, using: &random))"), &random)
      let (works, now) = (table.works, Int64(step / 150))
      for kind in ChannelWork.Kind.allCases {
        let found = table.first(kind)
        #expect(found?.moment == works.values.compactMap { $0.moment(of: kind) }.min())
        #expect(found?.moment == found.flatMap { works[$0.url]?.moment(of: kind) })
      }
      #expect(table.open == Set(works.filter { !$0.value.views.isEmpty }.keys))
      #expect(table.watched == table.open.filter { works[$0]?.isOfNobody == false })
      #expect(table.polled == table.watched.count { works[$0]?.isResting == false })
      #expect(table.takeChangedWatches() == watched.symmetricDifference(table.watched))
      watched = table.watched
      let troubled = works.filter { $0.value.retryAt != nil || !$0.value.heldBack.isEmpty }
      #expect(table.troubled == Set(troubled.keys))
      #expect(table.behind == works.values.count { !$0.isPrefetched && !$0.isOfNobody })
      let moments = works.values.compactMap(Self.prefetchAt)
      #expect((table.prefetchDueAt <= now) == moments.contains { $0 <= now })
      let ready = works.values.filter { Self.prefetchAt($0) ?? .max <= now }
      let next = table.nextPrefetch(now: now)
      let used = ready.filter(\.isUsed)
      let first = (used.isEmpty ? ready : used).map(\.lastMessageAt).max()
      #expect(next.flatMap { works[$0]?.lastMessageAt } == first)
      #expect(next.flatMap { works[$0] }.map { Self.prefetchAt($0) ?? .max <= now } ?? ready.isEmpty)
    }
  }
}
