import Glibc
import Platform

extension Row {
  /// P12: a first sync of 10 000 channels and a million messages from the stand-in upstream on the same
  /// machine, prefetch unlimited, into an empty directory, against plain inserts of as many rows; also the
  /// memory of the service, and the time it takes to stop right after.
  static let firstMillion = Row(
    name: "million", work: "10 000 channels of 100 messages into an empty cache, against plain inserts"
  ) { bench in
    let upstream = try SeededUpstream(channels: 10_000)
    var (ours, theirs): ([FirstSyncService.Run], [Double]) = ([], [])
    for _ in 0..<max(1, bench.pairs / 5) {
      ours.append(try FirstSyncService(upstream).run())
      if let program = bench.peer("insert", "/tmp", "FULL", "wr", "100", "\(upstream.messages)") {
        theirs.append(try Double(upstream.messages) / rate(Child.output(program)))
      }
    }
    let title = "first sync of \(upstream.messages) messages"
    return [
      Figure(
        title: title, unit: "s", ours: ours.map(\.seconds), peer: theirs, peerName: "insert", goal: .atMost(8)
      ),
      Figure(
        title: title, unit: "MB anonymous, most", ours: ours.map(\.megabytes).max() ?? .nan, peer: nil,
        peerName: "", goal: .atMost(64)),
      Figure(
        title: "a stop right after it", unit: "s, longest", ours: ours.map(\.stop).max() ?? .nan, peer: nil,
        peerName: "", goal: .atMost(2)),
    ]
  }
}

/// `perch serve` with an empty directory, for one first sync.
private final class FirstSyncService {
  private static let port = 18_252
  /// A sync that takes more seconds fails.
  private static let longest = 1_800
  private let messages: Int
  private let folder: ScratchFolder
  private let began = Clock.system.monotonicNanoseconds()
  private let child: Child
  private let line: KeptConnection

  /// The result of one first sync: the seconds until the last message was stored, the peak of the service's
  /// memory, and the seconds that the service took to stop.
  struct Run { let seconds: Double, megabytes: Double, stop: Double }

  init(_ upstream: SeededUpstream) throws {
    messages = upstream.messages
    folder = try ScratchFolder("million")
    let data = folder.path + "/data"
    let server = try TestedServer(
      "perch serve",
      [
        "sh", "-c",
        "exec '\(upstream.perch)' serve --listen 127.0.0.1:\(FirstSyncService.port) --data '\(data)'"
          // The cache must keep all messages, because prefetch stops when the cache is nearly full.
          + " --cache-max-size 4GB \(upstream.flags) 2>/dev/null",
      ], port: FirstSyncService.port)
    child = server.child
    let token = try Child.output([upstream.perch, "token", "--data", data, "--user", "alice"])
      .filter { !$0.isWhitespace }
    line = try KeptConnection(
      port: FirstSyncService.port, headers: "Authorization: Bearer \(token)\r\n")
  }

  private static func seconds(since began: UInt64) -> Double {
    Double(Clock.system.monotonicNanoseconds() - began) / 1e9
  }

  /// Connects, waits until all messages are stored, and stops the service.
  func run() throws -> Run {
    for _ in 0..<500 where try line.status("PUT", "/v1/connection") != 200 {
      usleep(20_000)  // only the status shows that the database is open
    }
    var most = 0.0
    var isSteady = false
    for _ in 0..<(FirstSyncService.longest * 20) where !isSteady {
      most = max(most, AnonymousMemory.megabytes(of: child.pid) ?? 0)
      isSteady = try line.ask("GET", "/v1/connection").body.contains("\"phase\":\"steady\"")
      if !isSteady { usleep(50_000) }  // the service announces no single channel
    }
    let seconds = FirstSyncService.seconds(since: began)
    let found = try number("messages", in: line.ask("GET", "/v1/cache").body)
    guard isSteady, found == Double(messages) else {
      throw BenchFailure(description: "after \(seconds) s it stored \(found ?? 0) messages of \(messages)")
    }
    let stopped = Clock.system.monotonicNanoseconds()
    child.stop()
    return Run(seconds: seconds, megabytes: most, stop: FirstSyncService.seconds(since: stopped))
  }
}
