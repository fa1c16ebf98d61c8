import ChatCache
import ChatModel

/// Whether the chat server tells in its channels what only the asking user sees: the state, the floor and the
/// counts.
///
/// A server may leave that out of one answer and tell it in the next. A changelog's entry is told once, so a
/// channel that came without it is asked for alone until it comes with it. A server that never tells it is
/// not asked.
struct MemberViews {
  private var wereTold = false
  /// How many channels in a row that were asked for alone came without it.
  private var missing = 0

  /// After so many the server is taken for one that does not tell it.
  private static let mostMissing = 100

  /// Whether a channel that came without it should be asked for.
  var areExpected: Bool { wereTold && missing < MemberViews.mostMissing }

  /// Takes in what an answer had. `wasAskedAlone`: of one channel, asked for because of this.
  mutating func note(_ records: [ChannelRecord], wasAskedAlone: Bool = false) {
    for record in records {
      if record.membership?.isTold ?? false {
        wereTold = true
        missing = 0
      } else if wasAskedAlone, record.lacksMemberView {
        missing += 1
      }
    }
  }
}

extension ChannelRecord {
  /// Whether the channel came whole but for what only the asking user sees. An entry that has only some
  /// fields says that the others did not change.
  var lacksMemberView: Bool { isWhole && !(membership?.isTold ?? true) }
}

extension MembershipRecord {
  /// Whether anything of what only the user sees came.
  fileprivate var isTold: Bool { state != nil || floorAt != nil || unread != nil || mentions != nil }
}
