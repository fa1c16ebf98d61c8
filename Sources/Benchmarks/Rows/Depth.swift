import ChatCache
import ChatModel
import Glibc
import Platform

extension Row {
  /// P7: the cost of a page in a channel, or a list, that is a thousand times as long.
  static let depth = Row(
    name: "depth", work: "a page among 5 million messages and 100 000 channels, against few"
  ) { bench in
    let count = getenv("BENCH_DEEP").flatMap { Int(String(cString: $0)) } ?? DeepCache.deep
    let world = try DeepCache(deep: count)
    let cache = world.cache
    let sizes = (large: count, small: DeepCache.shallow)
    let lists = (large: DeepCache.manyChannels, small: DeepCache.fewChannels)
    return [
      try compare("newest page of a channel", bench) { isLarge, _ in
        try readPage(cache, .newest, isLarge)
      },
      try compare("page in the middle of a channel", bench) { isLarge, turn in
        let middle = (isLarge ? sizes.large : sizes.small) / 2 + turn * 7 % 2000 - 1000
        return try readPage(cache, .before(FilledCache.position(middle), isInclusive: true), isLarge)
      },
      try compare("first page of the channel list", bench) { isLarge, _ in
        try readList(cache, isLarge, after: nil)
      },
      try compare("page in the middle of the channel list", bench) { isLarge, turn in
        let middle = (isLarge ? lists.large : lists.small) / 2 + turn % 20
        let key = ChannelListKey(
          time: FilledCache.firstAt + Int64(middle), text: "",
          channelURL: "\(isLarge ? "many" : "few")-\(middle)")
        return try readList(cache, isLarge, after: key)
      },
    ]
  }

  private static func readPage(_ cache: Cache, _ anchor: PageAnchor, _ isLarge: Bool) throws -> Int {
    try cache.read { reader in
      guard let user = try reader.userKey(of: FilledCache.user),
        let view = try reader.view(of: FilledCache.url(isLarge ? 0 : 1), for: user)
      else { return 0 }
      let ground = try reader.ground(
        anchor, in: view, link: LinkStatus(.online, generation: 1), interval: 2000, now: 0)
      return try reader.page(MessagePageQuery(anchor, limit: 30), in: view, on: ground).count - 30
    }
  }

  private static func readList(_ cache: Cache, _ isLarge: Bool, after: ChannelListKey?) throws -> Int {
    try cache.read { reader in
      guard let user = try reader.cachedUser(UserID(isLarge ? "many" : "few")) else { return -1 }
      return try reader.page(ChannelQuery(), of: user, after: after).count - 20
    }
  }

  /// Medians of both, in turns. `read` returns 0 if the page is as full as it must be.
  private static func compare(
    _ title: String, _ bench: Bench, _ read: (Bool, Int) throws -> Int
  ) throws -> Figure {
    var times: [Bool: [Double]] = [:]
    for pair in 0..<(bench.pairs + 1) {
      for isLarge in [true, false] {
        var round: [Double] = []
        for turn in 0..<500 {
          let began = Clock.system.monotonicNanoseconds()
          guard try read(isLarge, turn) == 0 else {
            throw BenchFailure(description: "\(title): not a full page")
          }
          round.append(Double(Clock.system.monotonicNanoseconds() - began) / 1000)
        }
        // The first pair fills caches.
        if pair > 0 { times[isLarge, default: []].append(round.median) }
      }
    }
    return Figure(
      title: title, unit: "µs", ours: times[true] ?? [], peer: times[false] ?? [],
      peerName: "few", goal: .atMost(1.2))
  }
}
