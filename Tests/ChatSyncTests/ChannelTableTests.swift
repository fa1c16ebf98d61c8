import ChatCache
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatSync

/// The table's kept results equal those of a search through all channels (B30, B33).
@Suite struct ChannelTableTests {
  /// Changes a channel's work in one of many ways; makes it if there is none.
  private static func change(_ work: inout ChannelWork?, _ url: ChannelURL, _ random: inout SeededRandom) {
    let time = Int64.random(in: 0..<20, using: &random)
    switch Int.random(in: 0..<20, using: &random) {
    case 0: work = nil
    case 1: work?.isPrefetched.toggle()
    case 2: work?.isOfNobody.toggle()
    case 3:
      work?.lastMessageAt = time
      work?.isUsed = Bool.random(using: &random)
    case 4: work?.checkAt = Bool.random(using: &random) ? time : nil
    case 5:
      work?.isRefreshDue.toggle()
      work?.refreshAt = time
    case 6:
      work?.messages.append(time)
      work?.messagesAt = time
    case 7: work?.messages.removeAll()
    case 8: work?.verifyAt = Bool.random(using: &random) ? time : nil
    case 9: work?.settleAt = Bool.random(using: &random) ? time : nil
    case 10:
      work?.fills = Bool.random(using: &random) ? [time] : []
      work?.fillsAt = time
    case 11:
      work?.views["v"] =
        Bool.random(using: &random) ? OpenView(id: "v", channel: url, isAtNewest: true) : nil
    case 12: work?.isBusy.toggle()
    case 13:
      work?.isNoted.toggle()
      if Bool.random(using: &random) { work?.isAwaited.toggle() }
    case 14: work?.isResting.toggle()
    case 15: work?.retryAt = Bool.random(using: &random) ? time : nil
    case 16:
      let held: [HeldBack.ChannelJob] = [.check, .prefetch, .message(time), .fill(time), .settle]
      let job = held.randomElement(using: &random)!
      if Bool.random(using: &random) {
        work?.heldBack.hold(job, maximum: 10, now: time) { _ in 5 }
      } else {
        work?.heldBack.letGo(job)
      }
    case 17: work?.newestNotedAt = Bool.random(using: &random) ? time : nil
    case 18: work?.refreshedAt = Bool.random(using: &random) ? time : nil
    default:
      if work == nil { work = ChannelWork(wait: Backoff(maximum: 1_000)) }
      work?.lastMessageAt = time
    }
  }

  @Test("B58: all channels but some are forgotten at once as they are one by one", arguments: 1...20)
  func forgetting(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = ChannelTable(maximumBackoff: 1_000)
    let urls = (0..<40).map { ChannelURL("c\($0)") }
    for _ in 0..<100 {
      for _ in 0..<40 {
        let url = urls.randomElement(using: &random)!
        var work = table[url]
        Self.change(&work, url, &random)
        table[url] = work
        if Int.random(in: 0..<4, using: &random) == 0 { table[url]?.isCatchingUp.toggle() }
      }
      if Bool.random(using: &random) { _ = table.takeChangedWatches() }
      if Bool.random(using: &random) { _ = table.takeOpened() }
      let kept = urls.filter { _ in Int.random(in: 0..<5, using: &random) == 0 }
      var naive = table
      for url in urls where !kept.contains(url) { naive[url] = nil }
      table.removeAll(but: kept)
      #expect(Set(table.urls) == Set(naive.urls) && table.quietCount == naive.quietCount)
      #expect(kept.allSatisfy { table[$0] == naive[$0] })
      #expect(table.open == naive.open && table.watched == naive.watched && table.troubled == naive.troubled)
      #expect(table.behind == naive.behind && table.polled == naive.polled)
      for kind in ChannelWork.Kind.allCases {
        #expect(table.first(kind)?.moment == naive.first(kind)?.moment)
      }
      #expect(table.prefetchDueAt == naive.prefetchDueAt)
      // Others than those that changed may be told, too.
      #expect(table.takeChangedWatches().isSuperset(of: naive.takeChangedWatches()))
      #expect(table.takeOpened().isSuperset(of: naive.takeOpened()))
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
    var table = ChannelTable(maximumBackoff: 1_000)
    var works: [ChannelURL: ChannelWork] = [:]
    var watched: Set<ChannelURL> = []
    var quiet = 0
    for step in 0..<3_000 {
      let url = ChannelURL("c\(Int.random(in: 0..<30, using: &random))")
      var same = random
      Self.change(&works[url], url, &same)
      Self.change(&table[url], url, &random)
      let now = Int64(step / 150)
      #expect(table[url]?.withoutPastTimes == works[url]?.withoutPastTimes)
      #expect(table.urls.count == works.count && table.urls.allSatisfy { works[$0] != nil })
      quiet += table.quietCount
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
    #expect(quiet > 3_000)
  }

  @Test("a channel is quiet again when its last job has ended")
  func quietAgain() {
    var plan = Plan(seed: 1)
    for job in plan.next(now: 0) { plan.ended(job, .done, now: 0) }
    let url = ChannelURL("c")
    plan.know(url, isPrefetched: true, isUnverified: true, lastMessageAt: 5, now: 0)
    plan.noteWebhook(.message, in: url, message: 7, now: 1)
    plan.noteWebhook(.channel, in: url, message: 0, now: 1)
    plan.noteWebhook(.newest, in: url, message: 8, now: 1)
    plan.fill(gap: 9, in: url)
    #expect(plan.channels.quietCount == 0)
    var jobs: [SyncJob] = []
    for now in Int64(2)..<3_000 {
      for job in plan.next(now: now) {
        jobs.append(job)
        let progresses = job == .verify(url) || job == .fill(url, gap: 9)
        plan.ended(job, progresses ? .progressed(isComplete: true) : .done, now: now)
      }
    }
    #expect(Set(jobs) == [.verify(url), .message(url, id: 7), .refresh(url), .news(url), .fill(url, gap: 9)])
    #expect(plan.channels.quietCount == 1)
    #expect(plan.channels[url]?.lastMessageAt == 5)
  }

  @Test("a channel that somebody looks at is not quiet, and its view is kept")
  func looked() {
    var plan = Plan(seed: 1)
    let view = OpenView(id: "v", channel: ChannelURL("c"), isAtNewest: true)
    plan.know(view.channel, isPrefetched: true, isUnverified: false, lastMessageAt: 5, now: 0)
    #expect(plan.channels.quietCount == 1)
    plan.open(view, now: 0)
    #expect(plan.channels.quietCount == 0)
    #expect(plan.view("v", in: view.channel) == view)
  }
}
