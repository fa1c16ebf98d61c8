/// The errands of one channel whose answers could not be decoded, each with its own wait (B35), as a value.
///
/// The channel's other errands go on: one message that cannot be read does not keep the newest ones away.
struct HeldBack: Sendable, Equatable {
  /// An errand within one channel.
  enum Errand: Hashable, Sendable {
    case check, refresh, prefetch, verify, settle
    case message(Int64)
    case fill(Int64)
  }

  private struct Hold: Sendable, Equatable {
    var until: Int64
    var wait: Backoff
  }

  private var holds: [Errand: Hold] = [:]

  /// Whether the errand has to wait at `now`.
  func holds(_ errand: Errand, now: Int64) -> Bool { (holds[errand]?.until ?? 0) > now }

  /// When the errand may begin that is wanted at `moment`; never where it is not wanted.
  func moment(_ errand: Errand, _ moment: Int64?) -> Int64 {
    guard let moment else { return .max }
    return max(moment, holds[errand]?.until ?? moment)
  }

  /// The errand waits, longer after each failure in a row.
  mutating func hold(_ errand: Errand, maximum: Int64, now: Int64, _ next: (inout Backoff) -> Int64) {
    var hold = holds[errand] ?? Hold(until: now, wait: Backoff(maximum: maximum))
    hold.until = now + next(&hold.wait)
    holds[errand] = hold
  }

  /// The errand's answer could be read, or somebody waits for it.
  mutating func letGo(_ errand: Errand) { holds[errand] = nil }
}

extension Job {
  /// The errand within its channel, nil for one of a user or the link.
  var channelErrand: HeldBack.Errand? {
    switch self {
    case .check: .check
    case .refresh: .refresh
    case .prefetch: .prefetch
    case .verify: .verify
    case .settle: .settle
    case .message(_, let id): .message(id)
    case .fill(_, let gap): .fill(gap)
    case .probe, .connect, .list, .endSweep, .channelChanges, .topChannels, .send: nil
    }
  }
}
