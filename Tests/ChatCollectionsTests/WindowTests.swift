import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatCollections

@Suite struct WindowTests {
  private func key(_ time: Int64, _ url: String = "a") -> ChannelListKey {
    ChannelListKey(time: time, text: "", channelURL: url)
  }

  @Test("B9: a channel list's window is moved by more alone, and holds everything once the end is proven")
  func channelWindow() {
    var window = ChannelWindow.closed
    #expect(!window.contains(key(100)))
    window.take(last: key(50), hasMore: true)
    #expect(window.contains(key(100)) && window.contains(key(50)) && !window.contains(key(49)))
    window.take(last: key(70), hasMore: true)
    #expect(window.boundary == key(50), "a page given again moves nothing")
    window.take(last: key(10), hasMore: false)
    #expect(window.contains(key(1)) && !window.hasMore)
    window.take(last: key(50), hasMore: true)
    #expect(!window.hasMore, "a proven end stays proven")
  }

  @Test(
    "B16, B17: pages in any order, also given again, leave the union of what was loaded", arguments: 0..<200)
  func union(seed: Int) {
    var random = SeededRandom(seed: UInt64(seed))
    var range = LoadedRange()
    var times: Set<Int64> = []
    for _ in 0..<12 {
      let low = Int64.random(in: 100...200, using: &random)
      let high = Int64.random(in: low...(low + 30), using: &random)
      let before = range.loaded
      range.take(
        Position.first(at: low)...Position.last(at: high), hasPrevious: low > 105, hasNext: high < 225)
      times.formUnion([low, high])
      if let before, let after = range.loaded {
        #expect(after.lowerBound <= before.lowerBound && after.upperBound >= before.upperBound)
      }
      #expect(range.loaded == Position.first(at: times.min()!)...Position.last(at: times.max()!))
      #expect(range.contains(Position(createdAt: times.min()!, messageID: 1)))
      #expect(range.contains(.start) == !range.hasPrevious)
      #expect(range.contains(Position(createdAt: 9_999, messageID: 1)) == !range.hasNext)
    }
  }

  @Test("B22: events move an end only where no page and no cut moved it meanwhile")
  func movedMeanwhile() {
    func range(_ low: Int64, _ high: Int64, hasNext: Bool = false) -> LoadedRange {
      let loaded = Position.first(at: low)...Position.last(at: high)
      return LoadedRange(loaded: loaded, hasPrevious: true, hasNext: hasNext)
    }
    let (before, after) = (range(10, 20), range(10, 25))
    #expect(after.hasArrivals(since: before) && !before.hasArrivals(since: before))
    let cutAtEnd = range(5, 12, hasNext: true)
    // The cut is at the last loaded message: only the end is no longer open.
    let cutAtLast = range(10, 20, hasNext: true)
    for (meanwhile, expected) in [
      (before, after), (range(5, 20), range(5, 25)), (cutAtEnd, cutAtEnd), (cutAtLast, cutAtLast),
    ] {
      var now = meanwhile
      now.move(from: before, to: after)
      #expect(now == expected)
    }
    var cut = range(18, 20)
    cut.move(from: before, to: range(10, 15, hasNext: true))
    #expect(cut.loaded?.lowerBound == Position.first(at: 18) && cut.hasNext)
    var first = LoadedRange()
    first.take(Position.first(at: 5)...Position.last(at: 8), hasPrevious: true, hasNext: true)
    first.move(from: LoadedRange(), to: before)
    #expect(first.loaded == Position.first(at: 5)...Position.last(at: 20))
  }

  @Test("B18: what comes at an open end is inside and stays inside when the end closes")
  func openEnd() {
    var range = LoadedRange()
    range.take(Position.first(at: 10)...Position.last(at: 20), hasPrevious: true, hasNext: false)
    let arrived = Position(createdAt: 30, messageID: 5)
    #expect(range.contains(arrived))
    range.arrive(at: arrived)
    range.letGo(newerThan: arrived)
    #expect(range.hasNext && range.contains(arrived))
    #expect(!range.contains(Position(createdAt: 31, messageID: 1)))
    range.letGo(olderThan: Position(createdAt: 15, messageID: 0))
    #expect(!range.contains(Position(createdAt: 14, messageID: 0)) && range.hasPrevious)
  }

  @Test("B16, B28: a window that began before anything was known is then what was loaded, not more")
  func unknown() {
    let page = Position.first(at: 10)...Position.last(at: 20)
    let unknown = LoadedRange(loaded: .end ... .end, hasPrevious: true, hasNext: false)
    var range = unknown
    range.arrive(at: page.lowerBound)
    #expect(range == unknown, "what comes is not known to be all")
    range.take(page, hasPrevious: true, hasNext: nil)
    #expect(range.loaded == page && !range.hasNext)
    var empty = unknown
    empty.take(nil, hasPrevious: false, hasNext: nil)
    #expect(empty.seen == nil)
    empty.arrive(at: page.upperBound)
    #expect(empty.loaded == page.upperBound...page.upperBound)
    // As an earlier program stored it.
    var stored = LoadedRange(loaded: page.lowerBound ... .end, hasPrevious: true, hasNext: false)
    #expect(stored.seen == page.lowerBound...page.lowerBound)
    stored.letGo(olderThan: page.upperBound)
    #expect(stored.loaded == page.upperBound...page.upperBound)
  }

  @Test("B28: an end that closed stays closed, although the first messages came meanwhile")
  func closedMeanwhile() {
    let empty = LoadedRange(loaded: .end ... .end, hasPrevious: false, hasNext: false)
    let first = Position(createdAt: 10, messageID: 1)
    var (arrived, closed) = (empty, empty)
    arrived.arrive(at: first)
    closed.letGo(newerThan: first)
    arrived.move(from: empty, to: closed)
    #expect(arrived == closed && closed.hasNext && closed.contains(first))
  }

  @Test("B16: an empty channel whose newest end was seen shows what comes")
  func empty() {
    var range = LoadedRange()
    range.take(nil, hasPrevious: false, hasNext: false)
    #expect(range.contains(Position(createdAt: 1, messageID: 1)))
  }
}

/// Compares differences of a view with a plain list.
@Suite struct DifferenceTests {
  @Test(
    "B9, B18: snapshot and differences give a fresh snapshot, exactly from two cursors back",
    arguments: 0..<200)
  func converges(seed: Int) {
    var random = SeededRandom(seed: UInt64(seed))
    var known = ClientKnowledge<Int>()
    var truth: [Int: Int64] = [:]
    var clock: Int64 = 0
    var cursors: [(at: Int64, client: [Int: Int64])] = [(0, [:])]
    known.answered(at: 0, showing: [:])
    for _ in 0..<60 {
      var touched: Set<Int> = []
      let last = cursors.last!
      for _ in 0..<Int.random(in: 0...6, using: &random) {
        let name = Int.random(in: 0..<12, using: &random)
        clock += 1
        touched.insert(name)
        if Bool.random(using: &random) { truth[name] = clock } else { truth[name] = nil }
      }
      // A client that lost the last answer comes back with the cursor before it.
      let isLost = cursors.count > 1 && Int.random(in: 0..<4, using: &random) == 0
      let asks = isLost ? cursors[cursors.count - 2] : last
      let older = Set(truth.keys).union(last.client.keys).union(asks.client.keys)
      let candidates = isLost ? touched.union(older) : touched
      var client = asks.client
      for name in candidates {
        let then = known.knowledge(of: name, at: asks.at)
        #expect(then != .unknown)
        switch Verdict(since: then, now: truth[name]) {
        case .nothing: #expect(client[name] == truth[name])
        case .added:
          #expect(client[name] == nil)
          client[name] = truth[name]
        case .updated:
          #expect(client[name] != nil && client[name] != truth[name])
          client[name] = truth[name]
        case .deleted:
          #expect(client[name] != nil)
          client[name] = nil
        }
      }
      #expect(client == truth)
      clock += 1
      known.answered(at: clock, showing: truth)
      cursors.append((clock, client))
    }
    #expect(known.knowledge(of: 1, at: -5) == .unknown)
  }

  @Test(
    "B9: of a cursor nobody remembers, a visible change is added and an invisible one deleted, never updated")
  func conservative() {
    #expect(Verdict(since: .unknown, now: 3) == .added)
    #expect(Verdict(since: .unknown, now: nil) == .deleted)
  }

  @Test("B9: what a client has is a plain dictionary, however its last changes are kept", arguments: 0..<200)
  func plain(seed: Int) {
    var random = SeededRandom(seed: UInt64(seed))
    var truth: [Int: Int64] = [:]
    for name in 0..<Int.random(in: 0...9, using: &random) { truth[name] = 1 }
    var shown = ClientKnowledge<Int>.Shown(all: truth)
    for step in 2..<40 as Range<Int64> {
      let earlier = (shown, truth)
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        let name = Int.random(in: 0..<12, using: &random)
        let version = Bool.random(using: &random) ? step : nil
        #expect(shown.change(name, to: version) == truth[name].map { .present(version: $0) } ?? .absent)
        truth[name] = version
      }
      if Int.random(in: 0..<8, using: &random) == 0 {
        shown.add([20: step])
        truth[20] = step
      }
      #expect(shown.versions == truth && shown.count == truth.count)
      #expect(shown.exceeds(truth.count - 1) && !shown.exceeds(truth.count))
      #expect((shown == earlier.0) == (truth == earlier.1))
      #expect(shown == ClientKnowledge.Shown(all: truth))
      #expect(earlier.0.versions == earlier.1, "a remembered state does not change with a later one")
    }
  }

  @Test("B9: what two clients of one view have is unknown at a cursor at which they do not have the same")
  func twoClients() {
    var known = ClientKnowledge<Int>()
    func answered(_ sequence: Int64, _ versions: [Int: Int64]) {
      known.oneAnswered(at: sequence, ClientKnowledge.Shown(all: versions))
    }
    answered(1, [7: 1])
    answered(2, [7: 1, 8: 2])
    answered(1, [7: 1])
    #expect(known.shown(at: 1).isWhole && known.shown(at: 2).isWhole)
    answered(2, [7: 1])
    #expect(!known.shown(at: 2).isWhole && known.knowledge(of: 8, at: 2) == .unknown)
    answered(2, [7: 1, 8: 2])
    #expect(known.knowledge(of: 8, at: 2) == .unknown, "the others still have something else")
    #expect(known.shown(at: 1).isWhole)
    answered(3, [7: 1])
    #expect(known.shown(at: 3).isWhole)
  }

  @Test("B17: what a load call answered counts as known at every remembered cursor")
  func loaded() {
    var known = ClientKnowledge<Int>()
    known.answered(at: 1, showing: [:])
    known.answered(at: 2, showing: [7: 1])
    known.loaded([9: 2])
    #expect(known.knowledge(of: 9, at: 1) == .present(version: 2))
    #expect(known.knowledge(of: 9, at: 2) == .present(version: 2))
    #expect(known.knowledge(of: 7, at: 1) == .absent)
  }
}
