import ChatCache
import Glibc
import Platform
import SQLite

extension Row {
  /// P8 and P10: how long `perch serve` takes from its start to its first page, also if its limit is lowered
  /// to 64 MB, and how much memory a million pages take, with a cache of 1 GB.
  static let largeCache = Row(
    name: "large", work: "perch serve with a cache of 1 GB: its start, and its memory over a million pages"
  ) { bench in
    let large = try CacheOnDisk(bytes: 1_000_000_000)
    let empty = try CacheOnDisk(bytes: 0)
    var (ours, theirs, cold): ([Double], [Double], [Double]) = ([], [], [])
    for _ in 0..<max(3, bench.pairs / 2) {
      ours.append(try large.firstPage())
      theirs.append(try empty.firstPage())
      try large.forgetPages()
      cold.append(try large.firstPage())
    }
    func alone(_ title: String, _ unit: String, _ value: Double, _ goal: Figure.Goal?) -> Figure {
      Figure(title: title, unit: unit, ours: value, peer: nil, peerName: "", goal: goal)
    }
    let more = zip(ours, theirs).map { $0 - $1 }.median
    // The first client's request begins the pass, and is answered beside it.
    try large.setLimit(64 << 20)
    var lowered: [Double] = []
    for _ in 0..<max(3, bench.pairs / 2) {
      lowered.append(try large.firstPage() - (try empty.firstPage()))
    }
    let memory = try large.servePages(1_000_000)
    return [
      Figure(
        title: "start to first page", unit: "ms", ours: ours, peer: theirs, peerName: "empty cache",
        goal: .atMost(1.5)),
      alone("start to first page, beyond the empty cache's", "ms", more, .atMost(60)),
      alone("start to first page, file not in memory", "ms", cold.median, nil),
      alone("the same beyond the empty cache's, limit lowered to 64 MB", "ms", lowered.median, .atMost(60)),
      alone("anonymous memory, most", "MB", memory.most, .atMost(64)),
      alone("anonymous memory, last fifth to first", "", memory.growth, .atMost(1.02)),
      alone("messages evicted meanwhile", "", memory.evicted, .atLeast(1)),
    ]
  }

  /// How long `perch serve` takes from its start to its first page with a million channels of one user.
  static let startWithChannels = Row(
    name: "start", work: "perch serve with 1 000 000 channels: its start"
  ) { bench in
    let large = try CacheOnDisk(bytes: 0, sql: ManyChannels.sql(1_000_000, crowded: 0, of: "many"))
    let empty = try CacheOnDisk(bytes: 0)
    var (ours, theirs): ([Double], [Double]) = ([], [])
    for _ in 0..<bench.pairs {
      ours.append(try large.firstPage())
      theirs.append(try empty.firstPage())
    }
    return [
      Figure(
        title: "start to first page", unit: "ms", ours: ours, peer: theirs, peerName: "empty cache", goal: nil
      ),
      Figure(
        title: "start to first page, beyond the empty cache's", unit: "ms",
        ours: zip(ours, theirs).map { $0 - $1 }.median, peer: nil, peerName: "", goal: .atMost(60)),
    ]
  }
}

/// A cache in a directory of its own, which `perch serve` serves without a chat server.
final class CacheOnDisk {
  private static let port = 18_260
  private static let channels = 100
  static let limit: Int64 = 1_200_000_000
  private let filled: FilledCache
  private let perch: String
  private let limitFile: String
  /// The number of messages in each channel.
  private let messages: Int

  /// Fills at least `bytes`, and at least one page of messages in each channel, and then runs `sql`.
  init(bytes: Int64, sql: String? = nil) throws {
    perch = try Child.besides("perch")
    filled = try FilledCache(channels: CacheOnDisk.channels, disk: true)
    var page = 0
    repeat {
      for channel in 0..<CacheOnDisk.channels { try filled.store(page * 100, count: 100, in: channel) }
      page += 1
    } while filled.cache.usage.usedBytes < bytes
    messages = page * 100
    filled.cache.close()
    if let sql { try Connection(path: filled.directory + "/perch.db").execute(sql) }
    limitFile = filled.directory + "/limit"
    try setLimit(CacheOnDisk.limit)
  }

  func setLimit(_ bytes: Int64) throws {
    guard let file = fopen(limitFile, "we") else {
      throw BenchFailure(description: "cannot write \(limitFile)")
    }
    defer { fclose(file) }
    fputs("\(bytes)\n", file)
  }

  private func start(_ flags: String = "") throws -> Child {
    try Child([
      "sh", "-c",
      "exec '\(perch)' serve --listen 127.0.0.1:\(CacheOnDisk.port) --auth off --access-log off"
        + " --data '\(filled.directory)' --cache-max-size-file '\(limitFile)' \(flags) 2>/dev/null",
    ])
  }

  /// The most anonymous memory of the service in MB, in the seconds after its first page, in which it reads
  /// all users and channels. Its chat server cannot be reached.
  func memoryAfterStart(seconds: Int) throws -> Double {
    let child = try start("--upstream http://127.0.0.1:9 --upstream-token none")
    defer { child.stop() }
    _ = try ready()
    var most = 0.0
    for _ in 0..<seconds * 10 {
      usleep(100_000)  // between two looks
      guard let now = AnonymousMemory.megabytes(of: child.pid) else {
        throw BenchFailure(description: "perch serve ended while its memory was measured")
      }
      most = max(most, now)
    }
    return most
  }

  private func connection() throws -> KeptConnection {
    try KeptConnection(port: CacheOnDisk.port, headers: "Perch-User: \(FilledCache.user.text)\r\n")
  }

  private var path: String { "/v1/channels/\(FilledCache.url(7).text)/messages?limit=30" }

  /// The milliseconds from the start of the process to the first page that it answers.
  func firstPage() throws -> Double {
    let began = Clock.system.monotonicNanoseconds()
    let child = try start()
    defer { child.stop() }
    _ = try ready()
    return Double(Clock.system.monotonicNanoseconds() - began) / 1e6
  }

  /// A connection over which a page was answered.
  private func ready() throws -> KeptConnection {
    for _ in 0..<120_000 {
      do {
        let line = try connection()
        _ = try line.ask("GET", path)
        return line
      } catch {
        // The service does not listen yet, or answers 503 until it is ready. That time is what is measured.
        usleep(500)
      }
    }
    throw BenchFailure(description: "no page within 60 s")
  }

  /// Makes the kernel drop the database file's pages from memory.
  func forgetPages() throws {
    let file = open(filled.directory + "/perch.db", O_RDONLY)
    defer { close(file) }
    guard file >= 0, fsync(file) == 0, posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0 else {
      throw BenchFailure(description: "the file's pages stay in memory")
    }
  }

  /// The memory during a run of pages.
  struct Memory { var most = 0.0, growth = Double.nan, evicted = 0.0 }

  /// Serves `count` pages of all channels while the limit falls each second, so that passes evict.
  func servePages(_ count: Double) throws -> Memory {
    // The first pass begins with the first request: its share of memory belongs to each sample.
    var limit: Int64 = 970_000_000
    try setLimit(limit)
    let child = try start()
    let line = try ready()
    // The newest messages are evicted last.
    let requests = try RequestTurns(
      (0..<400).map { number in
        let channel = FilledCache.url(number % CacheOnDisk.channels)
        let first = FilledCache.position(messages - 500 + number)
        return (
          "/v1/channels/\(channel.text)/messages?limit=30&after=\(first)",
          // Without authentication only such a host is answered.
          [(name: "Perch-User", value: FilledCache.user.text), (name: "Host", value: "127.0.0.1")]
        )
      })
    let server = TestedServer("perch serve", child, port: CacheOnDisk.port)
    var samples: [Double] = []
    var served = try server.run(.init(requests), seconds: 1).rate
    while served < count {
      served += try server.run(.init(requests), seconds: 1).rate
      samples.append(AnonymousMemory.megabytes(of: child.pid) ?? .nan)
      limit -= 15_000_000
      try setLimit(max(limit, 400_000_000))
      kill(child.pid, SIGHUP)
    }
    let metrics = try line.ask("GET", "/metrics").body.split(separator: "\n")
    let evicted = metrics.first { $0.hasPrefix("perch_cache_evicted_messages_total ") }
    let fifth = max(1, samples.count / 5)
    return Memory(
      most: samples.max() ?? .nan,
      growth: Array(samples.suffix(fifth)).median / Array(samples.prefix(fifth)).median,
      evicted: evicted?.split(separator: " ").last.flatMap { Double($0) } ?? .nan)
  }
}
