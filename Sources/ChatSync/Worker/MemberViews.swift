import ChatCache
import ChatModel

/// Whether the chat server tells in its channels what only the asking user sees: the state, the floor and the
/// counts.
///
/// A server may leave that out of one answer and tell it in the next. A changelog's entry is told once, so a
/// channel that came without it is asked for alone until it comes with it. A server that never tells it, or
/// never where one channel is asked for, is not asked.
struct MemberViews {
  private var wereTold = false
  private var wereToldAlone = false
  /// How many channels in a row that were asked for alone came without it.
  private var missing = 0

  /// After so many the server is taken for one that does not tell it: more where it told it before.
  private static let mostMissing = (first: 10, later: 100)

  /// Whether a channel that came without it should be asked for alone.
  var areExpected: Bool {
    wereTold && missing < (wereToldAlone ? MemberViews.mostMissing.later : MemberViews.mostMissing.first)
  }

  /// Takes in what an answer had. `isAlone`: one channel was asked for.
  mutating func note(_ records: [ChannelRecord], isAlone: Bool = false) {
    for record in records {
      if record.membership?.isTold ?? false {
        wereTold = true
        if isAlone { (wereToldAlone, missing) = (true, 0) }
      } else if isAlone, record.lacksMemberView {
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
