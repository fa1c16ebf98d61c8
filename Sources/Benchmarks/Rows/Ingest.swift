import ChatCache
import Glibc
import Platform

extension Row {
  /// P5: pages of messages into the cache, each with its coverage and events in one commit.
  static let ingest = Row(
    name: "ingest", work: "pages of 100 messages stored, one durable commit each, against plain inserts"
  ) { bench in
    let total = 20_000
    var ours: [Double] = []
    var theirs: [Double] = []
    for _ in 0..<bench.pairs {
      ours.append(try store(total))
      if let program = bench.peer("insert", "/tmp", "FULL", "wr", "100", "\(total)") {
        theirs.append(try rate(Child.output(program)))
      }
    }
    return [
      Figure(
        title: "stored, pages of 100", unit: "messages/s", ours: ours, peer: theirs, peerName: "insert",
        goal: .atLeast(0.5))
    ]
  }

  /// Rows a second into 50 channels in turns, as in the peer.
  private static func store(_ total: Int) throws -> Double {
    let filled = try FilledCache(channels: 50, disk: true)
    let began = Clock.system.monotonicNanoseconds()
    for page in 0..<(total / 100) {
      try filled.store(page / 50 * 100, count: 100, in: page % 50)
    }
    return Double(total) / (Double(Clock.system.monotonicNanoseconds() - began) / 1e9)
  }

  /// The number before "rows/s" in the output of `insert`.
  static func rate(_ text: String) throws -> Double {
    let words = text.split(whereSeparator: \.isWhitespace)
    guard let index = words.firstIndex(of: "rows/s"), index > 0, let rate = Double(words[index - 1]) else {
      throw BenchFailure(description: "insert said: \(text)")
    }
    return rate
  }
}
