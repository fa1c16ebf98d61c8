/// Load on Perch's server and on `mhd_hello`, in turns.
enum Pairs {
  /// Perch's server and the peer as processes, with requests for one path each.
  static func load(
    _ bench: Bench, title: String, path: String, peerPath: String? = nil, headers: [String],
    rate: Figure.Goal, cost: Figure.Goal?
  ) throws -> [Figure] {
    let ours = try TestedServer("ours", bench.ours(port: 18_180), port: 18_180)
    return try load(
      bench, title: title, ours, TestedServer.Load(path, headers: headers),
      peer: TestedServer.Load(peerPath ?? path, headers: headers), rate: rate, cost: cost)
  }

  /// A server of Perch's and the peer, each under a load of its own.
  static func load(
    _ bench: Bench, title: String, _ ours: TestedServer, _ ourLoad: TestedServer.Load,
    peer peerLoad: TestedServer.Load, rate: Figure.Goal, cost: Figure.Goal?
  ) throws -> [Figure] {
    let peer = try bench.peer("mhd_hello", "18181", "2").map {
      try TestedServer("mhd_hello", $0, port: 18_181)
    }
    // The first turn of each does not count: it fills caches and maps pages.
    _ = try ours.run(ourLoad, seconds: 1)
    _ = try peer?.run(peerLoad, seconds: 1)
    var ourRates: [Double] = []
    var ourCosts: [Double] = []
    var peerRates: [Double] = []
    var peerCosts: [Double] = []
    for _ in 0..<bench.pairs {
      let mine = try ours.run(ourLoad, seconds: bench.seconds)
      ourRates.append(mine.rate)
      ourCosts.append(mine.cost)
      guard let peer else { continue }
      let theirs = try peer.run(peerLoad, seconds: bench.seconds)
      peerRates.append(theirs.rate)
      peerCosts.append(theirs.cost)
    }
    return [
      Figure(
        title: title, unit: "requests/s", ours: ourRates, peer: peerRates, peerName: "mhd_hello", goal: rate),
      Figure(
        title: title, unit: "µs CPU/request", ours: ourCosts, peer: peerCosts, peerName: "mhd_hello",
        goal: cost),
    ]
  }
}
