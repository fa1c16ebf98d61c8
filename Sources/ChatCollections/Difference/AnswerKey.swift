import ChatCache
import ChatModel

/// What decides an answer beside the log itself. Views of one channel for which all of it is equal get the
/// same answer, even if they are of different users: one of them makes it, the others take its bytes.
///
/// A user with unsent rows in the channel sees messages in another way than others, and shares no answer.
///
/// A view that takes the bytes is compared with its user as a plain member at that moment. It may not take
/// them if the log names its user, or the view itself, between the two cursors.
package struct AnswerKey: Sendable {
  /// The channel.
  package let channel: ChannelKey
  /// The sequence in the log after which the answer begins.
  package let since: Int64
  /// The sequence up to which the answer goes.
  package let until: Int64
  private let request: MessageViewRequest
  private let floorAt: Int64
  private let before: LoadedRange
  private let after: LoadedRange
  /// What the client knew of each message that was looked at.
  private let knew: [Int64: Verdict.Knowledge]
  /// All that the client knew, and all that it has afterwards. Views whose clients knew the same share them.
  private let shownBefore: ClientKnowledge<Int64>.Shown
  private let shownAfter: ClientKnowledge<Int64>.Shown
  /// The users and views that the log names between the two cursors.
  private let named: (users: Set<UserKey>, views: Set<ExactText>)

  init(
    _ collection: MessageCollection, _ view: ChannelView, since: Int64, until: Int64,
    from before: LoadedRange, _ diff: borrowing MessageDiff
  ) throws {
    channel = collection.channel
    self.since = since
    self.until = until
    request = collection.request
    floorAt = view.floorAt
    self.before = before
    after = diff.range
    knew = diff.knew
    shownBefore = diff.shown
    shownAfter = diff.after
    named = try diff.reader.named(in: collection.channel, after: since, upTo: until)
  }

  /// Whether the view gets the same answer. `member`: the view's user. Changes nothing.
  package func matches(_ view: MessageCollection, _ member: PlainMember) -> Bool {
    guard view.channel == channel, !named.users.contains(view.user),
      !named.views.contains(ExactText(view.id)), view.request == request, member.channel == channel,
      member.floorAt == floorAt
    else { return false }
    return view.state.withLock { isAlike($0) }
  }

  /// Notes in the view that its client gets this answer. False: the view changed since it matched, and must
  /// not get the answer.
  package func adopt(by view: MessageCollection) -> Bool {
    view.state.withLock { state in
      guard isAlike(state) else { return false }
      var shown = state.known.shown(at: since)
      if shown == shownBefore {
        shown = shownAfter
      } else {
        for id in knew.keys { shown[id] = shownAfter[id] }
      }
      state.range = after
      state.answered(at: until, shown, view.bound)
      return true
    }
  }

  private func isAlike(_ state: MessageCollection.State) -> Bool {
    guard state.range == before else { return false }
    let shown = state.known.shown(at: since)
    return shown.isWhole && knew.allSatisfy { shown.knowledge(of: $0.key) == $0.value }
  }
}
