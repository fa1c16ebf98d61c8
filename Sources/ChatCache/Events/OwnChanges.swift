import ChatModel
import Platform

/// When something last changed for each user alone: an unsent message, a lost channel, the answer to a view.
/// The user's own counts are left out, because each member's own poll changes them.
///
/// Thousands of polls ask this for each change of their channel. Almost none of them has to look it up.
final class OwnChanges: Sendable {
  private struct State {
    var last: [UserKey: Int64] = [:]
    /// `last` may lack users whose last change has this sequence or an earlier one.
    var forgottenUpTo: Int64
  }

  private static let mostUsers = 16_384

  private let state: Guarded<State>

  /// Remembers changes with a sequence after `last`.
  init(after last: Int64) { state = Guarded(State(forgottenUpTo: last)) }

  /// Whether the change counts: others are not told it, and it is no count.
  static func counts(_ change: Change) -> Bool { change.user != nil && change.kind != .membership }

  /// Notes a change before its commit.
  func note(_ change: Change, at sequence: Int64) {
    guard let user = change.user, OwnChanges.counts(change) else { return }
    state.withLock { state in
      if state.last.count >= OwnChanges.mostUsers, state.last[user] == nil {
        state.last = [:]
        state.forgottenUpTo = sequence
      }
      state.last[user] = sequence
    }
  }

  /// Whether something may have changed for the user alone after `sequence`.
  func mayHave(_ user: UserKey, after sequence: Int64) -> Bool {
    state.withLock { sequence < $0.forgottenUpTo || $0.last[user] ?? 0 > sequence }
  }
}
