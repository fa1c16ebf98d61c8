/// One thing that can go wrong on purpose.
struct Fault: Sendable {
  enum Kind: String, Sendable, CaseIterable {
    /// The request is taken and never answered.
    case dark
    /// The connection is cut before anything is done.
    case refuse
    /// Answered after `milliseconds`.
    case delay
    /// Answered with `status`; 429 carries Retry-After `retry_after`.
    case status
    /// A page of HTML with 502.
    case html
    /// The work is done, its answer is not sent.
    case loseReply = "lose_reply"
    /// The work is done after `milliseconds`, its client gone or not; with `cut` the connection is cut at
    /// once.
    case late
    /// A list has only the first half of what it should have, as if there were no more.
    case cutPage = "cut_page"
    /// The answer's JSON ends in the middle.
    case cutBody = "cut_body"
    /// Changelog tokens are answered with 400109.
    case forgetTokens = "forget_tokens"
    /// The changelog endpoints are answered with 403.
    case denyChangelogs = "deny_changelogs"
    /// Not sent.
    case dropWebhook = "drop_webhook"
    /// Sent twice.
    case duplicateWebhook = "duplicate_webhook"
    /// Sent after the one that follows it, at the latest after `milliseconds`.
    case shuffleWebhook = "shuffle_webhook"

    /// Those that answer instead of the work.
    static let beforeWork: Set<Kind> = [
      .dark, .refuse, .delay, .status, .html, .late, .forgetTokens, .denyChangelogs,
    ]

    /// Whether it means anything for such a request. A form's files go with the request, so it is never late.
    func applies(
      toChangelog isChangelog: Bool, withToken hasToken: Bool, toForm isForm: Bool, _ operation: Operation
    ) -> Bool {
      switch self {
      case .late: operation.isWrite && !isForm
      case .denyChangelogs: isChangelog
      case .forgetTokens: isChangelog && hasToken
      default: true
      }
    }
  }

  let kind: Kind
  /// `*` stands for anything.
  let path: String
  /// How often it still applies; nil for ever.
  var count: Int64?
  let probability: Double
  let milliseconds: Int64
  let status: Int64
  let retryAfter: Int64
  /// Whether the connection is cut at once.
  let isCut: Bool

  init(_ value: Value) throws {
    guard let name = value["kind"]?.string, let kind = Kind(rawValue: name) else {
      let choices = Kind.allCases.map(\.rawValue).joined(separator: ", ")
      throw Refusal(400111, "\"kind\" must be one of \(choices).")
    }
    self.kind = kind
    path = value["path"]?.string ?? "*"
    count = value["count"]?.integer
    probability =
      switch value["probability"] {
      case .double(let share)?: share
      case .integer(let share)?: Double(share)
      default: 1
      }
    milliseconds = value["milliseconds"]?.integer ?? 1000
    status = value["status"]?.integer ?? 500
    retryAfter = value["retry_after"]?.integer ?? 1
    isCut = value["cut"] == .bool(true)
    guard (400...599).contains(status), (0...600_000).contains(milliseconds) else {
      throw Refusal.range("status or milliseconds")
    }
  }

  static func matches(_ pattern: String, _ path: String) -> Bool {
    let pieces = pattern.split(separator: "*", omittingEmptySubsequences: false).map { Array($0.utf8) }
    var rest = Array(path.utf8)[...]
    for (index, piece) in pieces.enumerated() {
      if index == 0 {
        guard rest.starts(with: piece) else { return false }
        rest = rest.dropFirst(piece.count)
      } else if index == pieces.count - 1 {
        return rest.count >= piece.count && Array(rest.suffix(piece.count)) == piece
      } else {
        while !rest.starts(with: piece) {
          if rest.isEmpty { return false }
          rest = rest.dropFirst()
        }
        rest = rest.dropFirst(piece.count)
      }
    }
    return rest.isEmpty
  }
}
