import Glibc

extension Row {
  /// P11: the time from a message sent upstream until 1 000 parked polls of a view in a quiet channel have
  /// it: the webhook, the fetch, the commit and the answers. Both processes have their default settings. The
  /// peer is plain C that answers its parked polls with a body as long.
  static let arrival = Row(
    name: "arrival", work: "a message sent upstream, by webhook, to 1 000 parked polls, against mhd_park"
  ) { bench in
    guard let peers = bench.peers else {
      throw BenchFailure(description: "arrival needs the peers' load program; leave the row out")
    }
    let program = peers + "/parkbench"
    let polls = min(1000, bench.parked)
    let pair = try UpstreamPair()
    let bytes = try pair.answerBytes()
    let twin = [peers + "/mhd_park", "18212", "2", "8192", "inline"]
    var (ours, theirs): ([Deliveries], [Deliveries]) = ([], [])
    // The first pair fills caches.
    for turn in 0...bench.pairs {
      let mine = try Deliveries(pair.park(polls, rounds: rounds, with: program), polls, rounds)
      let other = try delivered(by: twin, polls, bytes: bytes, with: program)
      guard turn > 0 else { continue }
      ours.append(mine)
      theirs.append(other)
    }
    let title = "sent upstream, to \(polls) parked polls"
    return [
      Figure(
        title: title, unit: "ms p50", ours: ours.map(\.p50), peer: theirs.map(\.p50), peerName: "mhd_park",
        goal: .atMost(2.5)),
      Figure(
        title: title, unit: "ms p99", ours: ours.map(\.p99), peer: theirs.map(\.p99), peerName: "mhd_park",
        goal: .atMost(5)),
      Figure(
        title: title, unit: "ms p99, worst round", ours: ours.map(\.worst).max() ?? .nan,
        peer: theirs.map(\.worst).max(), peerName: "mhd_park", goal: nil),
    ]
  }

  /// Messages in each half of a pair.
  private static let rounds = 5

  /// The deliveries of a newly started `mhd_park`, because it never notices that a parked client left. If it
  /// lost polls it is started again: libmicrohttpd leaves requests unserved if exactly 128 come at once, and
  /// `mhd_park` has no remedy for that.
  private static func delivered(
    by twin: [String], _ polls: Int, bytes: Int, with program: String
  ) throws -> Deliveries {
    for _ in 0..<5 {
      let server = try TestedServer("mhd_park", twin, port: 18_212)
      let lines = try server.park(polls, rounds: rounds, bytes: bytes, with: program)
      do { return try Deliveries(lines, polls, rounds) } catch {
        continue  // The server lost polls: try the next one.
      }
    }
    throw BenchFailure(description: "mhd_park lost polls five times")
  }
}

/// The delay of several messages that parkbench sent to all parked polls.
private struct Deliveries {
  /// parkbench prints the median and the 99th percentile of each message. `p50` and `p99` are the medians of
  /// those over all messages, and `worst` is the largest 99th percentile.
  let p50: Double
  let p99: Double
  let worst: Double

  init(_ lines: [String], _ polls: Int, _ rounds: Int) throws {
    let told = lines.filter { $0.contains("p99_ms") && number("delivered", in: $0) == Double(polls) }
    guard told.count == rounds else { throw BenchFailure(description: "polls were lost: \(lines)") }
    p50 = told.compactMap { number("p50_ms", in: $0) }.median
    let late = told.compactMap { number("p99_ms", in: $0) }
    p99 = late.median
    worst = late.max() ?? .nan
  }
}

/// `perch origin` and `perch serve` beside it, wired by webhook, and one view of alice's.
private final class UpstreamPair {
  private static let (origin, service) = (18_210, 18_211)
  private let folder: ScratchFolder
  private let header: String
  private let sent: String
  private let view: String
  private let line: KeptConnection
  private let upstream: Child
  private let server: TestedServer

  init() throws {
    let perch = try Child.besides("perch")
    let hook = "http://127.0.0.1:\(UpstreamPair.service)/v1/webhooks/sendbird"
    folder = try ScratchFolder("arrival")
    upstream = try Child([
      "sh", "-c",
      "exec '\(perch)' origin --listen 127.0.0.1:\(UpstreamPair.origin) --data :memory: --seed small"
        + " --webhook \(hook) 2>/dev/null",
    ])
    for _ in 0..<1000 where !upstream.written.contains("listening") {
      usleep(20_000)  // it prints when it listens, after its seed
    }
    server = try TestedServer(
      "ours",
      [
        "sh", "-c",
        "exec '\(perch)' serve --listen 127.0.0.1:\(UpstreamPair.service) --data '\(folder.path)/data'"
          + " --upstream http://127.0.0.1:\(UpstreamPair.origin) --upstream-token origin 2>/dev/null",
      ], port: UpstreamPair.service)
    let token = try Child.output([perch, "token", "--data", folder.path + "/data", "--user", "alice"])
    header = "Authorization: Bearer \(token.split(separator: "\n").first ?? "")"
    line = try KeptConnection(port: UpstreamPair.service, headers: header + "\r\nPrefer: wait=10\r\n")
    view = try UpstreamPair.open(line)
    let body = UpstreamPair.message
    sent = try folder.file(
      "sent",
      "POST /v3/group_channels/general/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nApi-Token: origin\r\n"
        + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
  }

  /// The message does not move Bob's read mark: otherwise the next poll of the channel changelog would tell
  /// the view of his read receipt, which is one more answer.
  private static let message =
    #"{"message_type":"MESG","user_id":"bob","message":"news","mark_as_read":false}"#

  deinit {
    server.child.stop()
    upstream.stop()
  }

  /// Opens a view, and returns its path.
  private static func open(_ line: KeptConnection) throws -> String {
    for _ in 0..<500 where try line.status("GET", "/readyz") != 200 {
      usleep(20_000)  // only the status shows that the database is open
    }
    _ = try line.ask("PUT", "/v1/connection")
    for _ in 0..<500 where try !line.ask("GET", "/v1/connection").body.contains("steady") {
      usleep(20_000)  // the first listing of a small seed
    }
    let view = try line.ask("POST", "/v1/message-collections", #"{"channel_url":"general"}"#).body
    guard let id = text("id", view) else { throw BenchFailure(description: "no view: \(view.prefix(200))") }
    return "/v1/message-collections/\(id)"
  }

  /// The view's cursor as it is now.
  private func cursor() throws -> String {
    let answer = try line.ask("GET", view).body
    guard let cursor = UpstreamPair.text("cursor", answer, isLast: true) else {
      throw BenchFailure(description: "no cursor: \(answer.prefix(200))")
    }
    return cursor
  }

  /// The length of the body that tells a view of a new message.
  func answerBytes() throws -> Int {
    let before = try cursor()
    let upstream = try KeptConnection(port: UpstreamPair.origin, headers: "Api-Token: origin\r\n")
    _ = try upstream.ask("POST", "/v3/group_channels/general/messages", UpstreamPair.message)
    return try line.ask("GET", "\(view)/events?since=\(before)&wait=10").body.utf8.count
  }

  /// The text of the first field with a name, or of the last.
  private static func text(_ name: String, _ json: String, isLast: Bool = false) -> String? {
    let parts = json.split(separator: "\"\(name)\":\"", omittingEmptySubsequences: false).dropFirst()
    return (isLast ? parts.last : parts.first)?.split(separator: "\"").first.map(String.init)
  }

  /// Parks `count` polls of the view, and sends `rounds` messages to the upstream.
  func park(_ count: Int, rounds: Int, with program: String) throws -> [String] {
    let kinds = try folder.file("kinds", "@\(cursor())\n\(view)/events?since={}&wait=30\t\(header)\n")
    let text = try Child.output([
      program, "-p", "\(UpstreamPair.service)", "-q", "\(UpstreamPair.origin)", "-n", "\(count)", "-r",
      "\(rounds)", "-S", "700", "-a", "4", "-f", kinds, "-B", sent, "-i", "\(server.child.pid)",
    ])
    return text.split(separator: "\n").map(String.init)
  }
}
