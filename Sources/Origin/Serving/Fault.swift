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
    /// The work is done after `milliseconds`, even if its client has left; with `cut` the connection is cut
    /// at once.
    case late
    /// The connection is cut when so many `bytes` of a form came; nothing is done.
    case cutUpload = "cut_upload"
    /// A list has only the first half of what it should have, as if there were no more.
    case cutPage = "cut_page"
    /// The answer's JSON ends in the middle.
    case cutBody = "cut_body"
    /// Changelog tokens are answered with 400109.
    case forgetTokens = "forget_tokens"
    /// The changelog endpoints are answered with 403.
    case denyChangelogs = "deny_changelogs"
    /// Answered from the state of `milliseconds` ago.
    case stalePage = "stale_page"
    /// A list is empty, as if there were nothing.
    case emptyPage = "empty_page"
    /// A list of messages lacks those that are younger than `milliseconds`. A message that is asked for by
    /// its id is there.
    case laggingListing = "lagging_listing"
    /// A list's items come in any order.
    case reorderPage = "reorder_page"
    /// Refused with `status` and `code`, as `body` says: `envelope`, `bare` or `html`.
    case deny
    /// Words are taken only as they are documented, letter by letter.
    case strictWords = "strict_words"
    /// Channels come without the fields that only one member sees.
    case noMemberView = "no_member_view"
    /// Items of a list are spoiled, as `spoils` chooses.
    case foreignItems = "foreign_items"
    /// Messages of one millisecond come in another order in each answer.
    case unstableTies = "unstable_ties"
    /// The webhook is not sent.
    case dropWebhook = "drop_webhook"
    /// The webhook is sent twice.
    case duplicateWebhook = "duplicate_webhook"
    /// The webhook is sent after the next one, at the latest after `milliseconds`.
    case shuffleWebhook = "shuffle_webhook"

    /// Faults that come before the work. Most answer instead of it; `delay` and `late` put it off.
    static let beforeWork: Set<Kind> = [
      .dark, .refuse, .delay, .status, .html, .late, .forgetTokens, .denyChangelogs, .deny,
    ]

    /// Whether the fault can affect such a request.
    func applies(toChangelog isChangelog: Bool, withToken hasToken: Bool, _ operation: Operation) -> Bool {
      switch self {
      case .late: operation.isWrite
      case .denyChangelogs: isChangelog
      case .forgetTokens: isChangelog && hasToken
      default: true
      }
    }
  }

  let kind: Kind
  /// `*` stands for anything.
  let path: String
  /// The only method it applies to; nil: to all.
  let method: String?
  /// How often it still applies; nil for ever.
  var count: Int64?
  let probability: Double
  let milliseconds: Int64
  let status: Int64
  let retryAfter: Int64
  /// Bytes of a form that come before it is cut.
  let bytes: Int64
  /// Whether the connection is cut at once.
  let isCut: Bool
  /// The code of a `deny`.
  let code: Int64
  /// What a `deny` is answered with.
  let form: DenialForm
  /// How items are spoiled.
  let spoils: [Spoiling]

  /// What a refused request gets.
  enum DenialForm: String, Sendable { case envelope, bare, html }

  init(_ value: Value) throws {
    guard let name = value["kind"]?.string, let kind = Kind(rawValue: name) else {
      let choices = Kind.allCases.map(\.rawValue).joined(separator: ", ")
      throw Refusal(400111, "\"kind\" must be one of \(choices).")
    }
    self.kind = kind
    path = value["path"]?.string ?? "*"
    method = value["method"]?.string
    count = value["count"]?.integer
    probability =
      switch value["probability"] {
      case .double(let share)?: share
      case .integer(let share)?: Double(share)
      default: 1
      }
    milliseconds = value["milliseconds"]?.integer ?? 1000
    status = value["status"]?.integer ?? (kind == .deny ? 400 : 500)
    code = value["code"]?.integer ?? 400302
    guard let form = DenialForm(rawValue: value["body"]?.string ?? "envelope") else {
      throw Refusal.invalid("body")
    }
    self.form = form
    spoils = try (value["spoils"]?.strings ?? []).map {
      guard let spoiling = Spoiling(rawValue: $0) else { throw Refusal.invalid("spoils") }
      return spoiling
    }
    retryAfter = value["retry_after"]?.integer ?? 1
    isCut = value["cut"] == .bool(true)
    bytes = value["bytes"]?.integer ?? 1024
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
