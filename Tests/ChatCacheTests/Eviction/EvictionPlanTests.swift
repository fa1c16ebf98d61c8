import ChatModel
import TestSupport
import Testing

@testable import ChatCache

/// The plan as a value: the next channel, the size of its slice, and the messages left between windows.
@Suite struct EvictionPlanTests {
  private static func candidate(
    _ key: Int64, accessedAt: Int64 = 0, last: Int64? = nil, bytes: Int64 = 1, type: String = ""
  ) -> EvictionCandidate {
    EvictionCandidate(
      key: ChannelKey(key),
      channel: CachedChannel(
        url: ChannelURL("c\(key)"), customType: type, messages: 1, bytes: bytes, accessedAt: accessedAt,
        lastMessageAt: last, createdAt: 0))
  }

  /// The channels in the plan's order.
  private static func order(_ candidates: [EvictionCandidate], _ order: [CacheLimit.Term]) -> [Int64] {
    var plan = EvictionPlan(order)
    guard plan.take(candidates) else { return [] }
    var found: [Int64] = []
    while let slice = plan.next {
      found.append(slice.channel.rawValue)
      plan.ended(.exhausted, nanoseconds: 1)
    }
    return found
  }

  @Test("B56: opened longest ago first; then the older last message; then the url")
  func byAccess() {
    let candidates = [
      Self.candidate(1, accessedAt: 5, last: 1), Self.candidate(2, accessedAt: 3, last: 9),
      Self.candidate(4, accessedAt: 3, last: 8), Self.candidate(3, accessedAt: 3, last: 8),
      Self.candidate(5, accessedAt: 3),
    ]
    #expect(Self.order(candidates, CacheLimit().order) == [5, 3, 4, 2, 1])
  }

  @Test("B56: by fields of one's own, each in its direction")
  func byFields() {
    let candidates = [
      Self.candidate(1, bytes: 5, type: "b"), Self.candidate(2, bytes: 9, type: "b"),
      Self.candidate(3, bytes: 7, type: "a"),
    ]
    #expect(Self.order(candidates, [CacheLimit.Term(.bytes, isDescending: true)]) == [2, 3, 1])
    #expect(Self.order(candidates, [CacheLimit.Term(.customType), CacheLimit.Term(.bytes)]) == [3, 1, 2])
  }

  @Test("a channel keeps its turn until nothing is left of it, and loses it when it is opened")
  func turns() {
    var plan = EvictionPlan(CacheLimit().order)
    let isTaken = plan.take([Self.candidate(1), Self.candidate(2, accessedAt: 1)])
    #expect(isTaken)
    plan.ended(.more, nanoseconds: 1)
    #expect(plan.next?.channel == ChannelKey(1))
    plan.ended(.accessed, nanoseconds: 1)
    #expect(plan.next?.channel == ChannelKey(2))
    plan.ended(.exhausted, nanoseconds: 1)
    #expect(plan.next == nil && plan.exhaustedCount == 1)
    // The channel is taken again in its new position; an exhausted one is not.
    let isTakenAgain = plan.take([Self.candidate(1, accessedAt: 7), Self.candidate(2, accessedAt: 1)])
    #expect(isTakenAgain)
    #expect(plan.next == EvictionSlice(channel: ChannelKey(1), accessedAt: 7, rows: plan.next?.rows ?? 0))
    plan.ended(.exhausted, nanoseconds: 1)
    let isLeft = plan.take([Self.candidate(1, accessedAt: 7), Self.candidate(2, accessedAt: 1)])
    #expect(!isLeft)
  }

  @Test("a slice shrinks at once where it took too long, and grows slowly")
  func size() {
    var size = SliceSize()
    let first = size.rows
    size.took(SliceSize.wantedNanoseconds * 4)
    #expect(size.rows == first / 4)
    for _ in 0..<100 { size.took(1) }
    #expect(size.rows == 2048)
    for _ in 0..<10 { size.took(UInt64.max) }
    #expect(size.rows == 32)
  }

  @Test("B57: what is free lies between the windows, whatever they are")
  func spared() {
    for seed: UInt64 in 0..<500 {
      var random = SeededRandom(seed: seed)
      let windows = (0..<Int.random(in: 0...5, using: &random)).map { _ in
        let ends = [0, 1].map { _ in
          random.chance(10)
            ? random.one(of: [Position.start, .end])
            : Position(createdAt: Int64.random(in: 0...4, using: &random), messageID: 1)
        }.sorted()
        return ends[0]...ends[1]
      }
      let free = SparedPositions(windows).free
      let positions = (0...4).map { Position(createdAt: $0, messageID: 1) } + [.start, .end]
      for position in positions {
        let isSpared = windows.contains { $0.contains(position) }
        #expect(free.contains { $0.contains(position) } == !isSpared, "seed \(seed)")
      }
      #expect(zip(free, free.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound }, "seed \(seed)")
    }
  }
}
