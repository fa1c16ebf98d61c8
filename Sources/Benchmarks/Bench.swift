import Glibc

/// Runs rows of pairs and prints their table.
///
/// A figure counts only as a ratio against a peer measured in the same run: Perch and the peer take turns, A
/// B A B, and the median of the pairs' ratios counts. Servers are processes of their own, so that their
/// processor time can be told from the load's. `Benchmarks serve PORT` and `serve-feed` are Perch's sides;
/// the peers are plain C on the same libraries, and nginx with nchan.
struct Bench {
  /// The folder of the peers' programs; nil measures without them.
  let peers: String?
  /// How many pairs are measured; at least 7 for a figure in the documents.
  let pairs: Int
  /// How long each half of a pair lasts under load.
  let seconds: Int
  /// How many polls are parked.
  let parked: Int

  static func main(_ words: [String]) -> Int32 {
    if words.first == "serve" {
      return OurServer.run(port: words.dropFirst().first.flatMap { UInt16($0) } ?? 0)
    }
    if words.first == "serve-feed" { return FeedServer.run(Array(words.dropFirst())) }
    if words.first == "serve-lists" { return FeedServer.run(Array(words.dropFirst()), .lists) }
    let chosen = Row.all.filter { words.isEmpty ? !$0.isLong : words.contains($0.name) }
    guard !chosen.isEmpty else {
      print("no such row; there are: \(Row.all.map(\.name).joined(separator: " "))")
      return 2
    }
    let bench = Bench(
      peers: setting("BENCH_PEERS"), pairs: number("BENCH_PAIRS", 15), seconds: number("BENCH_SECONDS", 1),
      parked: min(number("BENCH_PARKED", 10_000), descriptorsToSpare()))
    do {
      var table = Table()
      for row in chosen {
        print("\(row.name): \(row.work)")
        for figure in try row.measure(bench) { table.add(figure) }
      }
      print("\n" + table.text)
      return 0
    } catch {
      print("\(error)")
      return 1
    }
  }

  private static func setting(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

  private static func number(_ name: String, _ fallback: Int) -> Int {
    setting(name).flatMap { Int($0) } ?? fallback
  }

  /// How many connections one process can hold here.
  private static func descriptorsToSpare() -> Int {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let spare = Int(clamping: limit.rlim_max) - 200
    if spare < 10_000 { print("only \(spare) descriptors for each process: fewer polls are parked") }
    return spare
  }

  /// The program of a peer, with its arguments.
  func peer(_ name: String, _ words: String...) -> [String]? { peers.map { ["\($0)/\(name)"] + words } }

  /// The program of Perch's side, on a port.
  func ours(port: Int) -> [String] { ["/proc/self/exe", "serve", "\(port)"] }
}

/// Why nothing could be measured.
struct BenchFailure: Error, CustomStringConvertible {
  let description: String
}

extension [Double] {
  /// The middle value.
  var median: Double {
    let sorted = self.sorted()
    return sorted.isEmpty ? .nan : sorted[sorted.count / 2]
  }
}
