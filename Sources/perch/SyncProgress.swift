import ChatCache
import ChatModel
import Glibc
import Platform

/// The line of progress of `perch sync`, on stderr: rewritten on a terminal, else once a second.
struct SyncProgress {
  /// The progress at one moment.
  struct Line: Equatable {
    private let state: UserConnection.State
    /// Channels, messages and requests so far, as far as they are known.
    let summary: String

    init(_ connection: UserConnection, messages: Int64?, requests: Int?) {
      state = connection.state
      let progress = connection.progress
      let total = progress.channelsTotal.map { "/\($0)" } ?? ""
      var parts = ["\(progress.channelsDone)\(total) channels"]
      if let messages { parts.append("\(messages) messages") }
      if let requests { parts.append("\(requests) requests") }
      summary = parts.joined(separator: ", ")
    }

    /// The whole line.
    func text(_ left: TimeLeft.Estimate) -> String { "\(state.rawValue): \(summary), \(left)" }
  }

  private let startedAt = SyncProgress.now
  private let isTerminal = isatty(STDERR_FILENO) == 1
  private var shownAt: Int64?
  private var last = ""
  private var left = TimeLeft()

  private static var now: Int64 { Int64(Clock.system.monotonicNanoseconds() / 1_000_000) }

  /// Writes the line, unless the last one was written just now.
  mutating func show(_ connection: UserConnection, messages: Int64?, requests: Int?) {
    let now = SyncProgress.now
    let line = Line(connection, messages: messages, requests: requests)
    last = line.summary
    left.note(done: connection.progress.channelsDone, of: connection.progress.channelsTotal, at: now)
    if let shownAt, now - shownAt < (isTerminal ? 200 : 1_000) { return }
    shownAt = now
    let text = line.text(left.estimate(at: now))
    CommandLineCall.write(isTerminal ? "\r\u{1B}[K\(text)" : text + "\n", to: STDERR_FILENO)
  }

  /// Writes the summary to stdout.
  func end(_ word: String) {
    if isTerminal { CommandLineCall.write("\r\u{1B}[K", to: STDERR_FILENO) }
    let tenths = (SyncProgress.now - startedAt + 50) / 100
    CommandLineCall.write("\(word): \(last), \(tenths / 10).\(tenths % 10) s\n", to: STDOUT_FILENO)
  }

  /// Why the user cannot be synced, as the command's error message.
  static func words(_ error: SyncError, _ user: UserID) -> String {
    switch error {
    case .userUnknown: "the chat server knows no user \(user)"
    case .unreachable(.auth, _): "the chat server refuses the key: see --upstream-token"
    case .unreachable(.untrusted, _):
      "the chat server's certificate is not trusted: SSL_CERT_FILE names trusted ones"
    case .unreachable(.none, _): "there is no chat server: see --upstream"
    case .unreachable(.unreachable, _): "the chat server cannot be reached"
    case .rejected(let code, let message): "the chat server refuses with \(code): \(message)"
    case .storage(let reason): "the cache cannot be written: \(reason)"
    default: "the chat server did not answer usefully: \(error)"
    }
  }
}
