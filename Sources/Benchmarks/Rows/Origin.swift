import Glibc
import Platform

extension Row {
  /// The stand-in upstream with a million messages in 10 000 channels, while another client writes to it.
  static let origin = Row(
    name: "origin", work: "the stand-in upstream at 1 million messages, with 20 sends a second beside"
  ) { _ in
    let origin = try SeededOrigin()
    let edited = try origin.editChannels(20)
    let writer = origin.startWriting()
    let short = try origin.measure(4000) { turn in
      origin.window(turn, rows: 30)
    }
    let long = try origin.measure(2000) { turn in origin.window(turn, rows: 100) }
    let messages = try origin.measure(2000) { turn in
      "/v3/group_channels/channel-\(edited[turn % edited.count])/messages/changelogs?change_ts=0"
        + "&include_reactions=true&include_thread_info=true&with_sorted_meta_array=true"
    }
    let tokens = try origin.listTokens(40)
    let channels = try origin.measure(1000) { turn in
      "/v3/users/alice/my_group_channels/changelogs?show_member=true&token=\(tokens[turn % tokens.count])"
    }
    try writer.stop()
    return [
      Figure.times(short, of: "origin: window of 30", atMost: 5),
      Figure.times(long, of: "origin: window of 100", atMost: 5),
      Figure.times(messages, of: "origin: changelog page of 100 messages", atMost: 10),
      Figure.times(channels, of: "origin: changelog page of 100 channels", atMost: 10),
    ].flatMap { $0 }
  }
}

extension Figure {
  fileprivate static func times(_ times: [Double], of title: String, atMost bound: Double) -> [Figure] {
    [
      Figure(title: title, unit: "ms p50", ours: times.percentile(50), peer: nil, peerName: "", goal: nil),
      Figure(
        title: title, unit: "ms p99", ours: times.percentile(99), peer: nil, peerName: "",
        goal: .atMost(bound)),
    ]
  }
}

/// `perch origin --seed 10000` in a process of its own, with its data on disk.
private final class SeededOrigin {
  private static let port = 18_200
  private let child: Child
  private let line: KeptConnection
  private let folder: ScratchFolder

  init() throws {
    folder = try ScratchFolder("origin")
    child = try Child([
      Child.besides("perch"), "origin", "--listen", "127.0.0.1:\(SeededOrigin.port)", "--seed", "10000",
      "--data", folder.path,
    ])
    for _ in 0..<6000 where !child.written.contains("listening") {
      usleep(20_000)  // it prints when it listens, after its seed
    }
    line = try SeededOrigin.connect()
  }

  deinit { child.stop() }

  private static func connect() throws -> KeptConnection {
    try KeptConnection(port: port, headers: "Api-Token: origin\r\n")
  }

  /// Edits every message of `count` channels, so that their changelogs fill a page. Returns the channels'
  /// numbers.
  func editChannels(_ count: Int) throws -> [Int] {
    let numbers = (0..<count).map { $0 * 499 % 10_000 }
    for number in numbers {
      for id in (number * 100 + 1)...(number * 100 + 100) {
        _ = try line.ask(
          "PUT", "/v3/group_channels/channel-\(number)/messages/\(id)", #"{"message_type":"MESG","data":"x"}"#
        )
      }
    }
    return numbers
  }

  /// Starts to send 20 messages a second, to one channel after the other.
  func startWriting() -> Writer { Writer() }

  final class Writer {
    private struct State {
      var isOver = false
      var failure: (any Error)?
    }

    private let state = Watched(State())
    private let thread = ThreadSlot()

    init() {
      thread.start("writer") { [state] in
        do { try Writer.send(until: state) } catch { state.update { $0.failure = error } }
      }
    }

    private static func send(until state: Watched<State>) throws {
      let line = try SeededOrigin.connect()
      var turn = 0
      var next = Clock.system.monotonicNanoseconds()
      while true {
        next += 50_000_000
        if state.wait(until: next, { $0.isOver ? true : nil }) != nil { return }
        turn += 1
        let path = "/v3/group_channels/channel-\(turn * 37 % 10_000)/messages"
        _ = try line.ask("POST", path, #"{"message_type":"MESG","user_id":"bob","message":"beside"}"#)
      }
    }

    /// Ends the sending. Throws if a message was not sent, because the measurement does not count then.
    func stop() throws {
      state.update { $0.isOver = true }
      thread.join()
      if let failure = state.read({ $0.failure }) { throw failure }
    }
  }

  /// The tokens of the channel list's changelog, page after page.
  func listTokens(_ count: Int) throws -> [String] {
    var tokens: [String] = ["0"]
    while tokens.count < count, let last = tokens.last {
      let page = try line.ask("GET", "/v3/users/alice/my_group_channels/changelogs?token=\(last)").body
      guard let next = page.split(separator: "\"next\":\"").last?.split(separator: "\"").first else { break }
      tokens.append(String(next))
    }
    return tokens
  }

  /// A window of one of the channels: at its newest end, or around one of its messages.
  func window(_ turn: Int, rows: Int) -> String {
    let number = turn * 7919 % 10_000
    let parts =
      "include_reply_type=all&include_reactions=true&include_thread_info=true&with_sorted_meta_array=true"
      + "&include_parent_message_info=true"
    let path = "/v3/group_channels/channel-\(number)/messages?\(parts)"
    guard turn % 2 == 1 else {
      return path + "&message_ts=9007199254740991&prev_limit=\(rows)&next_limit=0"
    }
    return path + "&message_id=\(number * 100 + 50)&prev_limit=\(rows / 2)&next_limit=\(rows / 2)"
  }

  /// The milliseconds that each of `count` requests took.
  func measure(_ count: Int, _ path: (Int) -> String) throws -> [Double] {
    for turn in 0..<50 { _ = try line.ask("GET", path(turn * 31)) }
    return try (0..<count).map { try line.ask("GET", path($0)).milliseconds }
  }
}
