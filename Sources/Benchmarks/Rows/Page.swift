extension Row {
  /// The part of P1 that the cache and the layers under it take: without the contract's headers and the
  /// token.
  static let page = Row(name: "page", work: "30 messages from the cache through MicroHTTP, against C") {
    bench in
    try Pairs.load(
      bench, title: "page of 30 rows", path: "/rows", headers: [], rate: .atLeast(0.85), cost: .atMost(1.2))
  }

  /// The layers under the cache alone: one statement through SQLite and MicroHTTP.
  static let statement = Row(name: "statement", work: "30 rows by one statement through MicroHTTP, against C")
  {
    bench in
    try Pairs.load(
      bench, title: "30 rows by one statement", path: "/statement", peerPath: "/rows", headers: [],
      rate: .atLeast(0.9), cost: nil)
  }

  /// The same part of P2: an answer without a body.
  static let notModified = Row(name: "304", work: "a tag that matches, against plain C") { bench in
    try Pairs.load(
      bench, title: "304", path: "/e304", headers: ["If-None-Match: \"v1\""], rate: .atLeast(0.8), cost: nil)
  }
}
