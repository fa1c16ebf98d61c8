import ChatCache

/// What the upstream offers to Perch's key (B32), as a value.
///
/// A kind of call that is refused three times, whatever the code, while another succeeds with the same key,
/// is not offered. A day later it is tried again, and then one refusal is enough.
struct Capabilities: Sendable, Equatable {
  /// Refusals after which a kind of call counts as not offered.
  static let refusals = 3
  /// Until what is not offered is tried again (ms).
  static let retry: Int64 = 86_400_000

  /// What is known.
  private(set) var known: [Capability: Bool] = [:]
  private var refused: [Capability: Int] = [:]
  private var lackedSince: [Capability: Int64] = [:]

  /// What the upstream showed.
  mutating func learn(_ capability: Capability, isOffered: Bool, now: Int64) {
    known[capability] = isOffered
    refused[capability] = isOffered ? 0 : Capabilities.refusals - 1
    lackedSince[capability] = isOffered ? nil : now
  }

  /// It was refused while another call succeeded. Answers whether it counts as not offered now.
  mutating func refuse(_ capability: Capability) -> Bool {
    refused[capability, default: 0] += 1
    return refused[capability, default: 0] >= Capabilities.refusals
  }

  /// What was not offered a day ago may be now.
  mutating func forgetOld(now: Int64) {
    for (capability, since) in lackedSince where now - since >= Capabilities.retry {
      known[capability] = nil
      lackedSince[capability] = nil
    }
  }
}
