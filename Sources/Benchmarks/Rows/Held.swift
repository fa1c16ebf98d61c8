import Glibc

extension Row {
  /// P13: the time of `GET /v1/cache` and `/v1/cache/channels` in a service with a million messages in 10 000
  /// channels, against one with 10 000 in 100, for a user who is in all channels.
  static let held = Row(
    name: "cache", work: "GET /v1/cache and /v1/cache/channels among a million messages, against 10 000"
  ) { bench in
    let folder = try ScratchFolder("held")
    let large = try start(18_260, channels: 10_000, folder)
    let small = try start(18_261, channels: 100, folder)
    let headers = ["Authorization: \(try FeedServer.authorization(FilledCache.user))"]
    return try [("/v1/cache", 1.2), ("/v1/cache/channels?limit=20", 1.5)].map { path, most in
      let load = TestedServer.Load(path, headers: headers)
      var (many, few): ([Double], [Double]) = ([], [])
      // The first pair fills caches.
      for turn in 0...bench.pairs {
        let (mine, other) = (
          try large.run(load, seconds: bench.seconds).rate, try small.run(load, seconds: bench.seconds).rate
        )
        guard turn > 0 else { continue }
        many.append(1e6 / mine)
        few.append(1e6 / other)
      }
      return Figure(
        title: "GET \(path), 1 million messages", unit: "µs/request", ours: many, peer: few,
        peerName: "10 000 messages", goal: .atMost(most))
    }
  }

  private static func start(_ port: Int, channels: Int, _ folder: ScratchFolder) throws -> TestedServer {
    try TestedServer(
      "\(channels) channels",
      ["/proc/self/exe", "serve-feed", "\(port)", "1", "\(folder.path)/\(port)", "\(channels)", "100"],
      port: port, withinSeconds: 600)
  }
}
