import ChatCache
import ChatModel

/// The kinds of calls that the upstream offers to Perch's key (B32), as a value.
///
/// A kind of call counts as not offered after three refusals with any code, if another call succeeds with the
/// same key. A day later the call is tried again; then one refusal is enough.
struct Capabilities: Sendable, Equatable {
  /// Refusals after which a kind of call counts as not offered.
  static let refusals = 3
  /// How long a call counts as not offered before it is tried again (ms).
  static let retry = Limits.capabilityMilliseconds

  /// Whether each call is offered; a call that was not tried yet is missing.
  private(set) var known: [Capability: Bool] = [:]
  private var refused: [Capability: Int] = [:]
  private var lackedSince: [Capability: Int64] = [:]

  /// Notes whether the upstream offers the call.
  mutating func learn(_ capability: Capability, isOffered: Bool, now: Int64) {
    known[capability] = isOffered
    refused[capability] = isOffered ? 0 : Capabilities.refusals - 1
    lackedSince[capability] = isOffered ? nil : now
  }

  /// Counts a refusal while another call succeeded. True: the call counts as not offered now.
  mutating func refuse(_ capability: Capability) -> Bool {
    refused[capability, default: 0] += 1
    return refused[capability, default: 0] >= Capabilities.refusals
  }

  /// Forgets calls that were not offered a day ago, so that they are tried again.
  mutating func forgetOld(now: Int64) {
    for (capability, since) in lackedSince where now - since >= Capabilities.retry {
      known[capability] = nil
      lackedSince[capability] = nil
    }
  }
}
