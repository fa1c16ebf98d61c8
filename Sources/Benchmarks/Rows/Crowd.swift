import ChatCache
import ChatModel
import Glibc
import Platform

extension Row {
  /// What one message costs in a channel of which 5 000 users of the service are members, against one of 50.
  static let crowd = Row(
    name: "crowd", work: "one message into a channel with 5 000 members here, against one with 50"
  ) { bench in
    var (many, few): ([Cost], [Cost]) = ([], [])
    for _ in 0..<max(3, bench.pairs / 3) {
      many.append(try cost(members: 5_000))
      few.append(try cost(members: 50))
    }
    return [
      Figure(
        title: "the writer's time", unit: "ms", ours: many.map(\.milliseconds), peer: few.map(\.milliseconds),
        peerName: "50 members", goal: .atMost(1.5)),
      Figure(
        title: "the writer's time", unit: "ms", ours: many.map(\.milliseconds).median, peer: nil,
        peerName: "", goal: .atMost(2)),
      Figure(
        title: "write-ahead log", unit: "KB", ours: many.map(\.kilobytes), peer: few.map(\.kilobytes),
        peerName: "50 members", goal: .atMost(1.5)),
    ]
  }

  /// What a commit of one message costs.
  private struct Cost { var milliseconds: Double, kilobytes: Double }

  /// The medians of forty messages, one commit each.
  private static func cost(members: Int) throws -> Cost {
    let made = try FilledCache(channels: 1)
    try made.admit((0..<members).map { UserID("member-\($0)") })
    try made.store(0, count: 100, in: 0)
    // The write-ahead log begins anew, so that its file grows with each commit.
    let filled = try made.reopened()
    var (times, bytes): ([Double], [Double]) = ([], [])
    for number in 100..<140 {
      let before = try walBytes(filled)
      let began = Clock.system.monotonicNanoseconds()
      try filled.store(number, count: 1, in: 0)
      times.append(Double(Clock.system.monotonicNanoseconds() - began) / 1e6)
      bytes.append(Double(try walBytes(filled) - before) / 1000)
    }
    return Cost(milliseconds: times.median, kilobytes: bytes.median)
  }

  private static func walBytes(_ filled: FilledCache) throws -> Int {
    var found = stat()
    guard stat(filled.directory + "/perch.db-wal", &found) == 0 else {
      throw BenchFailure(description: "there is no write-ahead log")
    }
    return Int(found.st_size)
  }
}
