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
    switch Int.random(in: 0..<14, using: &random) {
    case 0: table[url] = nil
    case 1: table[url]?.isPrefetched.toggle()
    case 2: table[url]?.isOfNobody.toggle()
    case 3: table[url]?.lastMessageAt = time
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
    default: table[url, default: ChannelWork(wait: Backoff(maximum: 1_000))].lastMessageAt = time
    }
  }

  private static func isWanted(_ work: ChannelWork) -> Bool {
    work.checkAt != nil || work.isRefreshDue || !work.messages.isEmpty || work.verifyAt != nil
      || work.settleAt != nil || !work.fills.isEmpty
  }

  @Test("B30, B33: it knows what is to be done, who looks, and who is prefetched next", arguments: 1...20)
  func kept(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = ChannelTable()
    for _ in 0..<3_000 {
      Self.change(&table, ChannelURL("c\(Int.random(in: 0..<30, using: &random))"), &random)
      let works = table.works
      #expect(table.wanted == Set(works.filter { Self.isWanted($0.value) }.keys))
      #expect(table.open == Set(works.filter { !$0.value.views.isEmpty }.keys))
      let behind = works.filter { !$0.value.isPrefetched && !$0.value.isOfNobody }
      #expect(table.behind == behind.count)
      let free = behind.values.filter { !$0.isBusy }
      let next = table.nextBehind { !$0.isBusy }
      #expect(next.flatMap { works[$0]?.lastMessageAt } == free.map(\.lastMessageAt).max())
      #expect(next.map { behind[$0] != nil } ?? free.isEmpty)
      let due = table.prefetchDueAt(soonest: 0) { $0.isBusy ? nil : $0.lastMessageAt }
      #expect(due == free.map(\.lastMessageAt).min() ?? .max)
    }
  }
}
