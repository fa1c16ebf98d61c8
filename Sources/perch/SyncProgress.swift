import ChatCache
import ChatModel
import Glibc
import Platform

/// The line of progress of `perch sync`, on stderr: rewritten in place on a terminal, else once a second.
struct SyncProgress {
  private let startedAt = Clock.system.monotonicNanoseconds()
  private let isTerminal = isatty(STDERR_FILENO) == 1
  private var shownAt: UInt64 = 0
  private var last = ""
  /// When the messages began, to tell how long the rest takes.
  private var messagesBegan: (at: UInt64, done: Int)?

  private var seconds: Double { Double(Clock.system.monotonicNanoseconds() - startedAt) / 1e9 }

  /// How far it got.
  mutating func show(_ connection: UserConnection, messages: Int64?, requests: Int?) {
    let progress = connection.progress
    let now = Clock.system.monotonicNanoseconds()
    if progress.phase == .messages, messagesBegan == nil { messagesBegan = (now, progress.channelsDone) }
    let total = progress.channelsTotal.map { "/\($0)" } ?? ""
    last = "\(progress.channelsDone)\(total) channels"
    if let messages { last += ", \(messages) messages" }
    if let requests { last += ", \(requests) requests" }
    guard now - shownAt >= (isTerminal ? 200_000_000 : 1_000_000_000) else { return }
    shownAt = now
    let line = "\(connection.state.rawValue): \(last)\(timeLeft(progress, now))"
    CommandLineCall.write(isTerminal ? "\r\u{1B}[K\(line)" : line + "\n", to: STDERR_FILENO)
  }

  private func timeLeft(_ progress: UserConnection.Progress, _ now: UInt64) -> String {
    guard let began = messagesBegan, let total = progress.channelsTotal, progress.channelsDone > began.done
    else { return "" }
    let perChannel = Double(now - began.at) / 1e9 / Double(progress.channelsDone - began.done)
    let left = Int((Double(total - progress.channelsDone) * perChannel).rounded(.up))
    return left > 0 ? ", about \(left) s left" : ""
  }

  /// The summary, on stdout.
  func end(_ word: String) {
    if isTerminal { CommandLineCall.write("\r\u{1B}[K", to: STDERR_FILENO) }
    let tenths = Int((seconds * 10).rounded())
    CommandLineCall.write("\(word): \(last), \(tenths / 10).\(tenths % 10) s\n", to: STDOUT_FILENO)
  }

  /// Why it cannot be done.
  static func words(_ error: WishError, _ user: UserID) -> String {
    switch error {
    case .userUnknown: "the chat server knows no user \(user)"
    case .unreachable(.auth, _): "the chat server refuses the key: see --upstream-token"
    case .unreachable(.untrusted, _):
      "the chat server's certificate is not trusted: SSL_CERT_FILE names whose are"
    case .unreachable(.none, _): "there is no chat server: see --upstream"
    case .unreachable(.unreachable, _): "the chat server cannot be reached"
    case .rejected(let code, let message): "the chat server refuses with \(code): \(message)"
    case .storage(let reason): "the cache cannot be written: \(reason)"
    default: "the chat server did not answer usefully: \(error)"
    }
  }
}
