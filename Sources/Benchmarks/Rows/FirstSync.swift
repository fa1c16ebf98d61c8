import Glibc
import Platform

extension Row {
  /// A first sync of 1 000 channels of 100 messages from the stand-in upstream on the same machine: the time
  /// and the memory of `perch sync`, and the pages that a service answers meanwhile.
  static let firstSync = Row(
    name: "sync", work: "1 000 channels of 100 messages into an empty cache, and pages meanwhile"
  ) { bench in
    let upstream = try SeededUpstream(channels: 1_000)
    let rounds = max(1, bench.pairs / 2)
    var syncs: [SeededUpstream.Sync] = []
    for _ in 0..<rounds { syncs.append(try upstream.sync()) }
    var busy: [Double] = []
    var idle: [Double] = []
    var memory = 0.0
    for _ in 0..<rounds {
      let service = try SyncingService(upstream)
      busy.append(try service.pagesWhileSyncing(seconds: bench.seconds))
      memory = max(memory, try service.untilSteady())
      idle.append(try service.pages(seconds: bench.seconds))
    }
    let title = "first sync of \(upstream.channels) channels"
    return [
      Figure(
        title: title, unit: "s", ours: syncs.map(\.seconds).median, peer: nil, peerName: "", goal: .atMost(60)
      ),
      Figure(
        title: title, unit: "requests", ours: syncs.map(\.requests).median, peer: nil, peerName: "", goal: nil
      ),
      Figure(
        title: title, unit: "MB anonymous, most", ours: syncs.map(\.megabytes).max() ?? .nan, peer: nil,
        peerName: "", goal: .atMost(64)),
      Figure(
        title: "the same in a service under load", unit: "MB anonymous, most", ours: memory, peer: nil,
        peerName: "", goal: .atMost(64)),
      Figure(
        title: "pages while it syncs", unit: "requests/s", ours: busy, peer: idle,
        peerName: "itself idle", goal: .atLeast(0.6)),
    ]
  }
}

/// The anonymous memory of a process.
enum AnonymousMemory {
  /// In MB; nil if the process has ended.
  static func megabytes(of pid: pid_t) -> Double? {
    let line = ProcFile.text("/proc/\(pid)/status").split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
    return line.flatMap { $0.split(separator: " ").dropFirst().first }.flatMap { Double($0) }.map {
      $0 / 1024
    }
  }
}

/// `perch origin` with its seed in memory. In production the upstream runs on another machine, so here it
/// runs at a lower priority than the measured process.
final class SeededUpstream {
  private static let port = 18_250
  let channels: Int
  let perch: String
  private let child: Child

  /// All messages: the seed gives each channel a hundred.
  var messages: Int { channels * 100 }

  init(channels: Int) throws {
    self.channels = channels
    perch = try Child.besides("perch")
    child = try Child([
      "sh", "-c",
      "exec nice -n 10 '\(perch)' origin --listen 127.0.0.1:\(SeededUpstream.port) --data :memory:"
        + " --seed \(channels) 2>/dev/null",
    ])
    for _ in 0..<6_000 where !child.written.contains("listening") {
      usleep(20_000)  // it prints when it listens, after its seed
    }
    guard child.written.contains("listening") else {
      throw BenchFailure(description: "the stand-in upstream did not begin to listen")
    }
  }

  deinit { child.stop() }

  /// The flags with which the measured programs find the upstream.
  var flags: String {
    "--upstream http://127.0.0.1:\(SeededUpstream.port) --upstream-token origin --prefetch-rate 0"
  }

  /// The seconds, requests and memory of one `perch sync`.
  struct Sync { let seconds: Double, requests: Double, megabytes: Double }

  /// One `perch sync --once` into an empty directory. Throws unless it stored all messages.
  func sync() throws -> Sync {
    let directory = "/tmp/perch-bench-sync-\(getpid())"
    defer { SyncingService.remove(directory) }
    let began = Clock.system.monotonicNanoseconds()
    let child = try Child([
      "sh", "-c", "exec '\(perch)' sync --user alice --once --data '\(directory)' \(flags) 2>/dev/null",
    ])
    var most = 0.0
    while let now = AnonymousMemory.megabytes(of: child.pid) {
      most = max(most, now)
      usleep(5_000)  // a sample, not a wait: the loop ends with the process
    }
    child.wait()
    let seconds = Double(Clock.system.monotonicNanoseconds() - began) / 1e9
    let words = child.written.split(separator: " ")
    guard words.count > 5, words[1] == "\(channels)/\(channels)",
      Int(words[3]) == messages, let requests = Double(words[5])
    else { throw BenchFailure(description: "perch sync did not store everything: \(child.written)") }
    return Sync(seconds: seconds, requests: requests, megabytes: most)
  }
}

/// `perch serve` that fills an empty cache while it answers newest pages of channels that it has already.
private final class SyncingService {
  private static let port = 18_251
  private let directory: String
  private let server: TestedServer
  private let line: KeptConnection
  private let expected: Int
  private var load = TestedServer.Load("/")
  private var most = 0.0

  init(_ upstream: SeededUpstream) throws {
    expected = upstream.messages
    directory = "/tmp/perch-bench-syncing-\(getpid())"
    SyncingService.remove(directory)
    server = try TestedServer(
      "perch serve",
      [
        "sh", "-c",
        "exec '\(upstream.perch)' serve --listen 127.0.0.1:\(SyncingService.port) --data '\(directory)'"
          + " \(upstream.flags) 2>/dev/null",
      ], port: SyncingService.port)
    let token = try Child.output([upstream.perch, "token", "--data", directory, "--user", "alice"])
      .filter { !$0.isWhitespace }
    line = try KeptConnection(port: SyncingService.port, headers: "Authorization: Bearer \(token)\r\n")
    for _ in 0..<500 {
      do {
        _ = try line.ask("PUT", "/v1/connection")
        break
      } catch {
        // The service refuses until its database is open, and nothing else shows when that is.
        usleep(20_000)
      }
    }
    try look(5, "its first channels") { $0 >= SyncingService.ready }
    load = TestedServer.Load(
      try RequestTurns(cachedPages().map { ($0, [(name: "Authorization", value: "Bearer \(token)")]) }))
  }

  deinit {
    server.child.stop()
    SyncingService.remove(directory)
  }

  /// How many channels must have their messages before the load begins.
  private static let ready = 60

  static func remove(_ directory: String) {
    do { _ = try Child.output(["rm", "-rf", directory]) } catch {
      // The failure only leaves a directory in /tmp.
    }
  }

  /// Reads every `interval` ms how many channels are done, until those are enough.
  private func look(_ interval: UInt32, _ title: String, _ isEnough: (Int) -> Bool) throws {
    for _ in 0..<(120_000 / interval) {
      let (phase, done) = try progress()
      if phase == "steady" || phase == "messages" && isEnough(done) { return }
      usleep(interval * 1_000)  // the service announces no single channel
    }
    throw BenchFailure(description: "\(title) took more than two minutes")
  }

  private func progress() throws -> (phase: String, done: Int) {
    most = max(most, AnonymousMemory.megabytes(of: server.child.pid) ?? 0)
    let body = try line.ask("GET", "/v1/connection").body
    let phase = body.split(separator: "\"phase\":\"").dropFirst().first?.split(separator: "\"").first ?? ""
    return (String(phase), number("channels_done", in: body).map { Int($0) } ?? 0)
  }

  /// The paths of the channels' newest pages that are complete.
  private func cachedPages() throws -> [String] {
    let list = try line.ask("GET", "/v1/channels?limit=40").body
    let names = Set(
      list.split(separator: "\"channel_url\":\"").dropFirst().compactMap { $0.split(separator: "\"").first })
    let paths = names.sorted().map { "/v1/channels/\($0)/messages?limit=30" }
    let complete = try paths.filter { path in
      let page = try line.ask("GET", path).body
      return page.contains("\"complete\":true") && page.split(separator: "\"position\"").count == 31
    }
    guard complete.count >= 20 else {
      throw BenchFailure(description: "only \(complete.count) channels of \(paths.count) are there")
    }
    return complete
  }

  /// Waits until the service is idle: it still copies its last commits from the WAL into the database.
  private func settle() throws {
    for _ in 0..<200 {
      let before = server.child.processorMicroseconds
      usleep(300_000)  // the span over which processor time is measured
      if server.child.processorMicroseconds - before < 6_000 { return }
    }
    throw BenchFailure(description: "the service did not come to rest within a minute")
  }

  /// Requests a second, all of them during the sync.
  func pagesWhileSyncing(seconds: Int) throws -> Double {
    let rate = try pages(seconds: seconds)
    guard try progress().phase == "messages" else {
      throw BenchFailure(description: "the sync was over before the load: set BENCH_SECONDS lower")
    }
    return rate
  }

  /// Requests a second.
  func pages(seconds: Int) throws -> Double { try server.run(load, seconds: seconds).rate }

  /// Waits until all messages are stored, and returns the most memory of the service (MB).
  func untilSteady() throws -> Double {
    try look(20, "the sync") { _ in false }
    let messages = try number("messages", in: line.ask("GET", "/v1/cache").body)
    guard messages == Double(expected) else {
      throw BenchFailure(description: "the service has \(messages ?? 0) messages")
    }
    try settle()
    return most
  }
}
