import ChatModel
import Glibc

extension Row {
  /// P3, P4 and P9 over the service itself: the time of one new message to all parked polls of its views, the
  /// memory of a parked poll, and the rate of pages while polls are parked.
  static let feed = Row(
    name: "feed", work: "polls of real views: one message to all, memory, pages beside them"
  ) { bench in
    guard let peers = bench.peers else {
      throw BenchFailure(description: "feed needs the peers' load program; leave the row out with ROW=page")
    }
    let load = FeedLoad(bench, program: peers + "/parkbench")
    let starts: [() throws -> TestedServer] = [
      { try load.start(users: 1) }, { try load.start(users: 1000) },
      { try TestedServer("mhd_park", [peers + "/mhd_park", "18191", "2", "8192", "inline"], port: 18_191) },
      {
        try TestedServer(
          "nchan", ["nginx", "-p", peers + "/nchan/", "-c", "nchan.conf", "-g", "daemon off;"], port: 8091)
      },
    ]
    var last = [[Double]](repeating: [], count: starts.count)
    for _ in 0..<bench.pairs {
      // The peers send as many bytes as the service's answer to a poll has.
      var bytes: Int?
      for (index, start) in starts.enumerated() {
        let delivery = try load.delivery(by: start(), bytes: bytes)
        last[index].append(delivery.milliseconds)
        bytes = bytes ?? delivery.bytes
      }
    }
    var figures: [Figure] = []
    for (index, users) in [(0, "one user"), (1, "1000 users")] {
      let title = "one message to \(bench.parked) polls of \(users)"
      figures += [
        Figure(
          title: title, unit: "ms to the last", ours: last[index], peer: last[3],
          peerName: "nchan", goal: .atMost(1)),
        Figure(
          title: title, unit: "ms to the last", ours: last[index], peer: last[2],
          peerName: "mhd_park", goal: .atMost(1.15)),
      ]
    }
    for (start, users) in [(starts[0], "one user"), (starts[1], "1000 users")] {
      figures.append(
        Figure(
          title: "\(bench.parked) parked polls of \(users)", unit: "KB each",
          ours: try load.kilobytesPerPoll(start()), peer: nil, peerName: "", goal: .atMost(9)))
    }
    return figures + [try load.pagesBeside(starts[1])]
  }
}

extension Row {
  /// The time of one new message to the parked polls of 5 000 users' channel lists, each with ten channels.
  static let lists = Row(
    name: "lists", work: "polls of 5 000 channel lists, one message to all, against nchan"
  ) { bench in
    guard let peers = bench.peers else {
      throw BenchFailure(description: "lists needs the peers' load program; leave the row out with ROW=page")
    }
    let load = FeedLoad(bench, program: peers + "/parkbench", parked: min(5_000, bench.parked))
    var (ours, theirs): ([Double], [Double]) = ([], [])
    for _ in 0..<bench.pairs {
      let own = try load.delivery(by: load.start(users: load.parked, "serve-lists", channels: 10))
      let other = try load.delivery(
        by: TestedServer(
          "nchan", ["nginx", "-p", peers + "/nchan/", "-c", "nchan.conf", "-g", "daemon off;"], port: 8091),
        bytes: own.bytes)
      ours.append(own.milliseconds)
      theirs.append(other.milliseconds)
    }
    return [
      Figure(
        title: "one message to \(load.parked) polls of channel lists", unit: "ms to the last", ours: ours,
        peer: theirs, peerName: "nchan", goal: .atMost(1.5))
    ]
  }
}

/// Loads on one server: parked polls, and pages.
private struct FeedLoad {
  private let bench: Bench
  let parked: Int
  private let program: String
  private let kinds = "/tmp/perch-bench-feed-\(getpid())"

  init(_ bench: Bench, program: String, parked: Int? = nil) {
    self.bench = bench
    self.parked = parked ?? bench.parked
    self.program = program
  }

  func start(users: Int, _ kind: String = "serve-feed", channels: Int = 1) throws -> TestedServer {
    unlink(kinds)
    return try TestedServer(
      "ours", ["/proc/self/exe", kind, "18190", "\(users)", kinds, "\(channels)"], port: 18_190)
  }

  /// `bytes`: how many a peer is to send to each poll.
  private func words(
    _ server: TestedServer, rounds: Int, settle: Int, bytes: Int? = nil
  ) -> [String] {
    let family = server.child.family.map { "\($0)" }.joined(separator: ",")
    let own = server.name == "ours" ? ["-f", kinds] : []
    return [
      program, "-p", "\(server.port)", "-n", "\(parked)", "-r", "\(rounds)", "-S", "\(settle)", "-a",
      "8", "-i", family,
    ] + own + (bytes.map { ["-b", "\($0)"] } ?? [])
  }

  private func lines(_ server: TestedServer, rounds: Int, bytes: Int? = nil) throws -> [String] {
    try Child.output(words(server, rounds: rounds, settle: 1500, bytes: bytes)).split(separator: "\n")
      .map(String.init)
  }

  /// The time until the last poll had its answer, and the bytes of an answer's body. `bytes`: how many a peer
  /// is to send.
  func delivery(by server: TestedServer, bytes: Int? = nil) throws -> (milliseconds: Double, bytes: Int) {
    let lines = try lines(server, rounds: 1, bytes: bytes)
    guard let line = lines.first(where: { $0.contains("last_ms") }), let time = number("last_ms", in: line),
      number("delivered", in: line) == Double(parked), let size = number("body_bytes", in: line)
    else { throw BenchFailure(description: "\(server.name) lost polls: \(lines)") }
    return (time, Int(size))
  }

  func kilobytesPerPoll(_ server: TestedServer) throws -> Double {
    try ParkedMemory(lines(server, rounds: 2)).kilobytesPerPoll(parked)
  }

  /// The rate of pages while polls are parked, against the rate without them, in turns.
  func pagesBeside(_ start: () throws -> TestedServer) throws -> Figure {
    let server = try start()
    let path = "/v1/channels/\(FilledCache.url(0).text)/messages?limit=30"
    let headers = ["Authorization: \(try FeedServer.authorization(UserID("user-0")))"]
    _ = try server.run(.init(path, headers: headers), seconds: 1)
    var alone: [Double] = []
    var beside: [Double] = []
    for _ in 0..<bench.pairs {
      alone.append(try server.run(.init(path, headers: headers), seconds: bench.seconds).rate)
      let parked = try Child(words(server, rounds: 0, settle: bench.seconds * 1000 + 2500))
      for _ in 0..<500 where !parked.written.contains("connected") { usleep(20_000) }  // its output tells
      usleep(500_000)  // until the last of them are parked
      beside.append(try server.run(.init(path, headers: headers), seconds: bench.seconds).rate)
      parked.wait()
    }
    return Figure(
      title: "page beside \(parked) parked polls", unit: "requests/s", ours: beside,
      peer: alone, peerName: "itself", goal: .atLeast(0.95))
  }
}
