import ChatCache
import ChatModel

/// Whether the chat server's channels have the member view: the fields that only the asking user sees, such
/// as the state, the floor and the counts.
///
/// A server may leave the member view out of one answer and send it in the next. A changelog sends an entry
/// once, so a channel that came without it is requested alone until it comes with it. A server that never
/// sends it, or never for a channel requested alone, is not asked.
struct MemberViews {
  private var wereTold = false
  private var wereToldAlone = false
  /// The number of channels in a row that were requested alone and came without a member view.
  private var missing = 0

  /// After so many the server counts as one that does not send it. `later`: for a server that did before.
  private static let mostMissing = (first: 10, later: 100)

  /// Whether a channel that came without a member view should be requested alone.
  var areExpected: Bool {
    wereTold && missing < (wereToldAlone ? MemberViews.mostMissing.later : MemberViews.mostMissing.first)
  }

  /// Notes which channels of an answer had a member view. `isAlone`: one channel was requested.
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
  /// Whether the channel has all fields except the member view. An entry that has only some fields says that
  /// the others did not change.
  var lacksMemberView: Bool { isWhole && !(membership?.isTold ?? true) }
}

extension MembershipRecord {
  /// Whether the answer had any field of the member view.
  fileprivate var isTold: Bool { state != nil || floorAt != nil || unread != nil || mentions != nil }
}
