import Glibc

extension Row {
  /// P3's floor and P4: the time of one body to all parked polls, and the memory of a parked poll.
  static let fanOut = Row(
    name: "park", work: "parked polls: one body to all, and memory, against C and nchan"
  ) {
    bench in
    guard let peers = bench.peers else {
      throw BenchFailure(description: "park needs the peers' load program; leave the row out with ROW=page")
    }
    let program = peers + "/parkbench"
    // A new server for each run: plain C never notices that a parked client left, so clients would pile up.
    let starts: [() throws -> TestedServer] = [
      { try TestedServer("ours", bench.ours(port: 18_190), port: 18_190) },
      { try TestedServer("mhd_park", [peers + "/mhd_park", "18191", "2", "8192", "inline"], port: 18_191) },
      {
        try TestedServer(
          "nchan", ["nginx", "-p", peers + "/nchan/", "-c", "nchan.conf", "-g", "daemon off;"], port: 8091)
      },
    ]
    let memory = try starts.map { start in
      try ParkedMemory(try start().park(bench.parked, rounds: 2, with: program)).kilobytesPerPoll(
        bench.parked)
    }
    var last = [[Double]](repeating: [], count: starts.count)
    for _ in 0..<bench.pairs {
      for (index, start) in starts.enumerated() {
        let server = try start()
        let lines = try server.park(bench.parked, rounds: 1, with: program)
        guard let line = lines.first(where: { $0.contains("last_ms") }),
          let time = number("last_ms", in: line),
          number("delivered", in: line) == Double(bench.parked)
        else { throw BenchFailure(description: "\(server.name) lost polls: \(lines)") }
        last[index].append(time)
      }
    }
    let title = "\(bench.parked) parked polls"
    return [
      Figure(
        title: "one body to \(title)", unit: "ms to the last", ours: last[0], peer: last[2],
        peerName: "nchan", goal: .atMost(1)),
      Figure(
        title: "one body to \(title)", unit: "ms to the last", ours: last[0], peer: last[1],
        peerName: "mhd_park", goal: .atMost(1.15)),
      Figure(title: title, unit: "KB each", ours: memory[0], peer: nil, peerName: "", goal: .atMost(9)),
      Figure(
        title: title, unit: "KB each", ours: memory[0], peer: memory[2], peerName: "nchan", goal: nil),
      Figure(
        title: title, unit: "KB each", ours: memory[0], peer: memory[1], peerName: "mhd_park", goal: nil),
    ]
  }
}

/// The memory of a server, which parkbench measured twice: before it connected, and when all polls were
/// parked again after a delivery.
struct ParkedMemory {
  private let idle: Double
  private let parkedAgain: Double

  init(_ lines: [String]) throws {
    func pss(_ tag: String) -> Double? {
      lines.last { $0.contains("\"mem\":\"\(tag)") }.flatMap { number("pss_kb", in: $0) }
    }
    guard let idle = pss("empty"), let parkedAgain = pss("parked_again") else {
      throw BenchFailure(description: "no memory in \(lines)")
    }
    self.idle = idle
    self.parkedAgain = parkedAgain
  }

  func kilobytesPerPoll(_ count: Int) -> Double { (parkedAgain - idle) / Double(count) }
}
