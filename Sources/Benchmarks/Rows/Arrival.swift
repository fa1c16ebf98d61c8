import Glibc

extension Row {
  /// From a message sent upstream until 1 000 parked polls of a view have it: the webhook, the fetch, the
  /// commit and the answers, with both processes as they are started by anybody.
  static let arrival = Row(
    name: "arrival", work: "a message sent upstream, by webhook, to 1 000 parked polls"
  ) { bench in
    guard let peers = bench.peers else {
      throw BenchFailure(description: "arrival needs the peers' load program; leave the row out")
    }
    let polls = min(1000, bench.parked)
    let pair = try UpstreamPair()
    let rounds = max(bench.pairs, 21)
    let lines = try pair.park(polls, rounds: rounds, with: peers + "/parkbench")
    let told = lines.filter { $0.contains("p99_ms") && number("delivered", in: $0) == Double(polls) }
    guard told.count == rounds else { throw BenchFailure(description: "polls were lost: \(lines)") }
    let what = "sent upstream, to \(polls) parked polls"
    return [
      Figure(
        what: what, unit: "ms p50", ours: told.compactMap { number("p50_ms", in: $0) }.median, peer: nil,
        peerName: "", goal: nil),
      Figure(
        what: what, unit: "ms p99, worst round",
        ours: told.compactMap { number("p99_ms", in: $0) }.max() ?? .nan, peer: nil, peerName: "",
        goal: .atMost(250)),
    ]
  }
}

/// `perch origin` and `perch serve` beside it, wired by webhook, and one view of alice's.
private final class UpstreamPair {
  private static let (origin, service) = (18_210, 18_211)
  private let folder: ScratchFolder
  private let kinds: String
  private let sent: String
  private let upstream: Child
  private let server: TestedServer

  init() throws {
    let perch = try Child.besides("perch")
    let hook = "http://127.0.0.1:\(UpstreamPair.service)/v1/webhooks/sendbird"
    folder = try ScratchFolder("arrival")
    upstream = try Child([
      perch, "origin", "--listen", "127.0.0.1:\(UpstreamPair.origin)", "--data", ":memory:", "--seed",
      "small", "--webhook", hook,
    ])
    for _ in 0..<1000 where !upstream.written.contains("listening") {
      usleep(20_000)  // it says when it is up, after its seed
    }
    server = try TestedServer(
      "ours",
      [
        perch, "serve", "--listen", "127.0.0.1:\(UpstreamPair.service)", "--data", folder.path + "/data",
        "--upstream", "http://127.0.0.1:\(UpstreamPair.origin)", "--upstream-token", "origin",
      ], port: UpstreamPair.service)
    let token = try Child.output([perch, "token", "--data", folder.path + "/data", "--user", "alice"])
    let header = "Authorization: Bearer \(token.split(separator: "\n").first ?? "")"
    kinds = try folder.file("kinds", try UpstreamPair.follow(header))
    let body = #"{"message_type":"MESG","user_id":"bob","message":"news"}"#
    sent = try folder.file(
      "sent",
      "POST /v3/group_channels/general/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nApi-Token: origin\r\n"
        + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
  }

  deinit {
    server.child.stop()
    upstream.stop()
  }

  /// Opens a view; how it is followed.
  private static func follow(_ header: String) throws -> String {
    let line = try KeptConnection(port: UpstreamPair.service, headers: header + "\r\nPrefer: wait=10\r\n")
    for _ in 0..<500 where try line.status("GET", "/readyz") != 200 {
      usleep(20_000)  // nothing else tells that its database is open
    }
    _ = try line.ask("PUT", "/v1/connection")
    for _ in 0..<500 where try !line.ask("GET", "/v1/connection").body.contains("steady") {
      usleep(20_000)  // the first listing of a small seed
    }
    let view = try line.ask("POST", "/v1/message-collections", #"{"channel_url":"general"}"#).body
    guard let id = text("id", view), let cursor = text("cursor", view, isLast: true) else {
      throw BenchFailure(description: "no view: \(view.prefix(200))")
    }
    return "@\(cursor)\n/v1/message-collections/\(id)/events?since={}&wait=30\t\(header)\n"
  }

  /// The text of a field: of the first so called, or of the last.
  private static func text(_ name: String, _ json: String, isLast: Bool = false) -> String? {
    let parts = json.split(separator: "\"\(name)\":\"", omittingEmptySubsequences: false).dropFirst()
    return (isLast ? parts.last : parts.first)?.split(separator: "\"").first.map(String.init)
  }

  func park(_ count: Int, rounds: Int, with program: String) throws -> [String] {
    let text = try Child.output([
      program, "-p", "\(UpstreamPair.service)", "-q", "\(UpstreamPair.origin)", "-n", "\(count)", "-r",
      "\(rounds)", "-S", "700", "-a", "4", "-f", kinds, "-B", sent, "-i", "\(server.child.pid)",
    ])
    return text.split(separator: "\n").map(String.init)
  }
}
