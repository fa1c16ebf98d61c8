extension Row {
  /// P1 without a token: a page out of the cache.
  static let page = Row(name: "page", work: "30 messages from the cache through MicroHTTP, against C") {
    bench in
    try Pairs.load(
      bench, what: "page of 30 rows", path: "/rows", headers: [], rate: .atLeast(0.85), cost: .atMost(1.2))
  }

  /// The layers by themselves: one statement through SQLite and MicroHTTP.
  static let statement = Row(name: "statement", work: "30 rows by one statement through MicroHTTP, against C")
  {
    bench in
    try Pairs.load(
      bench, what: "30 rows by one statement", path: "/statement", peerPath: "/rows", headers: [],
      rate: .atLeast(0.9), cost: nil)
  }

  /// P2's floor: an answer without a body.
  static let notModified = Row(name: "304", work: "a tag that matches, against plain C") { bench in
    try Pairs.load(
      bench, what: "304", path: "/e304", headers: ["If-None-Match: \"v1\""], rate: .atLeast(0.8), cost: nil)
  }
}

/// Load on ours and on `mhd_hello` in turns.
private enum Pairs {
  static func load(
    _ bench: Bench, what: String, path: String, peerPath: String? = nil, headers: [String],
    rate: Figure.Goal, cost: Figure.Goal?
  ) throws -> [Figure] {
    let ours = try TestedServer("ours", bench.ours(port: 18_180), port: 18_180)
    let peer = try bench.peer("mhd_hello", "18181", "2").map {
      try TestedServer("mhd_hello", $0, port: 18_181)
    }
    // One turn for each that does not count: caches fill, pages are mapped.
    _ = try ours.load(path, headers: headers, seconds: 1)
    _ = try peer?.load(peerPath ?? path, headers: headers, seconds: 1)
    var ourRates: [Double] = []
    var ourCosts: [Double] = []
    var peerRates: [Double] = []
    var peerCosts: [Double] = []
    for _ in 0..<bench.pairs {
      let mine = try ours.load(path, headers: headers, seconds: bench.seconds)
      ourRates.append(mine.rate)
      ourCosts.append(mine.cost)
      guard let peer else { continue }
      let theirs = try peer.load(peerPath ?? path, headers: headers, seconds: bench.seconds)
      peerRates.append(theirs.rate)
      peerCosts.append(theirs.cost)
    }
    return [
      Figure(
        what: what, unit: "requests/s", ours: ourRates.median, peer: peer.map { _ in peerRates.median },
        peerName: "mhd_hello", goal: rate),
      Figure(
        what: what, unit: "µs CPU/request", ours: ourCosts.median, peer: peer.map { _ in peerCosts.median },
        peerName: "mhd_hello", goal: cost),
    ]
  }
}
