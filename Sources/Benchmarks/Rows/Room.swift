import Glibc

extension Row {
  /// A room of 5 000 members, 2 000 of whom follow it by long polls, with 20 messages a second, against one
  /// of 50 with 20, and ten messages a second in a small channel beside it. `perch load` measures; service,
  /// stand-in and load share the machine. A message counts once, when the last of its parked polls has it.
  static let room = Row(
    name: "room", work: "20 messages a second in a room of 5 000, 2 000 of whom follow, against one of 50"
  ) { _ in
    let many = try RoomRun(members: 5_000, parked: 2_000)
    let few = try RoomRun(members: 50, parked: 20)
    func figure(_ title: String, _ value: KeyPath<RoomRun, Double>, _ goal: Figure.Goal?) -> [Figure] {
      [
        Figure(
          title: title, unit: "ms", ours: many[keyPath: value], peer: few[keyPath: value],
          peerName: "50 members", goal: nil),
        Figure(title: title, unit: "ms", ours: many[keyPath: value], peer: nil, peerName: "", goal: goal),
      ]
    }
    return figure("to the last poll of a message, p99", \.untilLast, .atMost(300))
      + figure("the same, sent at the chat server", \.untilLastFromServer, .atMost(300))
      + figure("a single delivery, p99", \.delivered, nil)
      + figure("a send is accepted, p99", \.accepted, nil)
      + figure("a page beside them, p99", \.pages, nil)
      + figure("a send into another channel is accepted, p99", \.beside, nil)
      + [
        Figure(
          title: "sends into another channel that are accepted within 20 ms", unit: "%",
          ours: many.besideWithin, peer: nil, peerName: "", goal: nil),
        Figure(
          title: "writes that are durable within 20 ms", unit: "%", ours: many.writes, peer: nil,
          peerName: "", goal: .atLeast(99)),
      ]
  }
}

/// One load on a room, with a service and a stand-in of its own.
private struct RoomRun {
  private static let (origin, service) = (18_220, 18_221)
  private static let secret = "room"

  /// 99th percentiles, ms.
  let untilLast: Double
  let untilLastFromServer: Double
  let delivered: Double
  let beside: Double
  let accepted: Double
  let pages: Double
  /// The share of sends into another channel that were answered within 20 ms, %. Service, stand-in and load
  /// share two cores, so this is also how long the processor keeps the request, the commit and the answer
  /// waiting.
  let besideWithin: Double
  /// The share of all clients' writes that were durable within 20 ms, %.
  let writes: Double

  init(members: Int, parked: Int) throws {
    let perch = try Child.besides("perch")
    let folder = try ScratchFolder("room")
    let (chat, url) = ("127.0.0.1:\(RoomRun.origin)", "127.0.0.1:\(RoomRun.service)")
    let upstream = try Child([
      "sh", "-c",
      "exec '\(perch)' origin --listen \(chat) --data :memory: --seed none --webhook-secret \(RoomRun.secret)"
        + " --webhook http://\(url)/v1/webhooks/sendbird 2>/dev/null",
    ])
    defer { upstream.stop() }
    let server = try TestedServer(
      "ours",
      [
        "sh", "-c",
        "exec '\(perch)' serve --listen \(url) --data '\(folder.path)/data' --upstream http://\(chat)"
          + " --upstream-token origin --webhook-secret \(RoomRun.secret) 2>/dev/null",
      ], port: RoomRun.service)
    defer { server.child.stop() }
    // The first listings of all members end while the load warms up.
    let report = try Child.output([
      perch, "load", "--url", "http://\(url)", "--origin", "http://\(chat)", "--data", folder.path + "/data",
      "--users", "\(members)", "--channels", "1", "--parked", "\(parked)", "--messages", "20/s", "--beside",
      "10/s", "--pages", "5/s", "--warm-up", "45s", "--time", "30s",
    ])
    guard report.contains("errors: none; deliveries that did not come: 0, that came twice: 0") else {
      throw BenchFailure(description: "the load failed: \(report)")
    }
    untilLast = try RoomRun.p99("to the last poll", in: report)
    untilLastFromServer = try RoomRun.p99("the same from the chat server", in: report)
    delivered = try RoomRun.p99("delivered  ", in: report)
    beside = try RoomRun.p99("accepted beside", in: report)
    accepted = try RoomRun.p99("accepted  ", in: report)
    pages = try RoomRun.p99("pages", in: report)
    besideWithin = try RoomRun.share("sends beside that were accepted within 20 ms: ", in: report)
    writes = try RoomRun.share("writes that were durable within 20 ms: ", in: report)
  }

  /// The percentage in the line of the report that begins so.
  private static func share(_ name: String, in report: String) throws -> Double {
    let line = report.split(separator: "\n").first { $0.hasPrefix(name) }
    guard let text = line?.dropFirst(name.count).split(separator: " ").first, let share = Double(text)
    else { throw BenchFailure(description: "no line \(name)in: \(report)") }
    return share
  }

  /// The 99th percentile in the row of the report that begins so.
  private static func p99(_ row: String, in report: String) throws -> Double {
    let line = report.split(separator: "\n").first { $0.hasPrefix(row) }
    // The row ends with count, p50, p95, p99 and the most.
    guard let cells = line?.split(separator: " ").suffix(5), cells.count == 5,
      let value = Double(cells[cells.startIndex + 3])
    else { throw BenchFailure(description: "no row \(row) in: \(report)") }
    return value
  }
}
