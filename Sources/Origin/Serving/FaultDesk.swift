import JSON
import Platform

/// What can go wrong on purpose, set at `/_faults` as
/// `{"seed":1,"faults":[{"kind":"status","path":"/v3/users*","count":3,"probability":0.5,"status":503}],
/// "capabilities":{"changelogs":false,"reply_listing":false,"dedup":"error","uploads":false}}`.
///
/// The first fault whose path pattern (`*` stands for anything) matches, that has uses left and that the
/// seeded dice choose is applied. `GET` shows what is set, `DELETE` takes all away.
final class FaultDesk: Sendable {
  enum Kind: String, Sendable, CaseIterable {
    /// The request is taken and never answered.
    case dark
    /// 403 before anything is done.
    case refuse
    /// Answered after `milliseconds`.
    case delay
    /// Answered with `status`; 429 carries Retry-After `retry_after`.
    case status
    /// A page of HTML with 502.
    case html
    /// The work is done, its answer is not sent.
    case loseReply = "lose_reply"
    case dropWebhook = "drop_webhook"
    case duplicateWebhook = "duplicate_webhook"
    /// Changelog tokens are answered with 400109.
    case forgetTokens = "forget_tokens"
    /// The answer's JSON ends in the middle.
    case cutPage = "cut_page"
    /// The changelog endpoints are answered with 403.
    case denyChangelogs = "deny_changelogs"
  }

  struct Fault: Sendable {
    let kind: Kind
    let path: String
    var count: Int64?
    let probability: Double
    let milliseconds: Int64
    let status: Int64
    let retryAfter: Int64

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
      guard (400...599).contains(status), (0...600_000).contains(milliseconds) else {
        throw Refusal.range("status or milliseconds")
      }
    }
  }

  private struct State {
    var faults: [Fault] = []
    var capabilities = Capabilities()
    var shown = Value.object(["faults": .array([])])
    var dice: UInt64 = 1
  }

  private let state = Guarded(State())

  var capabilities: Capabilities { state.withLock { $0.capabilities } }
  var shown: String { state.withLock { $0.shown.text } }

  /// Replaces everything set; at most 100 faults.
  func set(_ value: Value) throws {
    let faults = try (value["faults"]?.items ?? []).map(Fault.init)
    guard faults.count <= 100 else { throw Refusal.range("faults") }
    var capabilities = Capabilities()
    let wanted = value["capabilities"]
    if wanted?["changelogs"] == .bool(false) { capabilities.areChangelogsOn = false }
    if wanted?["reply_listing"] == .bool(false) { capabilities.areReplyListingsOn = false }
    if wanted?["uploads"] == .bool(false) { capabilities.areSeparateUploadsOn = false }
    if let text = wanted?["dedup"]?.string {
      guard let duplicates = Capabilities.Duplicates(rawValue: text) else { throw Refusal.invalid("dedup") }
      capabilities.duplicates = duplicates
    }
    let made = capabilities
    state.withLock {
      $0 = State(
        faults: faults, capabilities: made, shown: value,
        dice: UInt64(bitPattern: value["seed"]?.integer ?? 1))
    }
  }

  func clear() { state.withLock { $0 = State() } }

  /// The fault among `kinds` that hits this path now; a line of log tells of it.
  func take(_ kinds: Set<Kind>, path: String) -> Fault? {
    let taken: Fault? = state.withLock { state in
      for index in state.faults.indices {
        let fault = state.faults[index]
        guard kinds.contains(fault.kind), fault.count != 0, FaultDesk.matches(fault.path, path),
          FaultDesk.roll(&state.dice) < fault.probability
        else { continue }
        state.faults[index].count = fault.count.map { $0 - 1 }
        return fault
      }
      return nil
    }
    if let taken { Log.line(.info, "fault", ["kind": .text(taken.kind.rawValue), "path": .text(path)]) }
    return taken
  }

  /// SplitMix64, as a share of one.
  private static func roll(_ state: inout UInt64) -> Double {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return Double((mixed ^ (mixed >> 31)) >> 11) / 9_007_199_254_740_992
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
