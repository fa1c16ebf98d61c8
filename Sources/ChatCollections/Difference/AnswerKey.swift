import ChatCache
import ChatModel

/// What decides an answer beside the log itself. Views of one channel that are alike in all of it, whosever
/// they are, are told the same: one of them reads it, the others take its bytes.
///
/// A user with something unsent in the channel sees messages as nobody else does, and shares with nobody.
///
/// Nothing of it is taken on trust: whoever takes the bytes brings its own membership and floor of that
/// moment, and is refused where the log names its user, or its view, between the two cursors.
package struct AnswerKey: Sendable {
  /// Where.
  package let channel: ChannelKey
  /// From where the log was told, and up to where.
  package let since: Int64
  /// Up to where.
  package let until: Int64
  private let request: MessageViewRequest
  private let floorAt: Int64
  private let before: LoadedRange
  private let after: LoadedRange
  /// What the client knew of each message that was looked at.
  private let knew: [Int64: Verdict.Knowledge]
  /// All that the client knew, and all that it has afterwards: views that knew the same share these bytes.
  private let shownBefore: ClientKnowledge<Int64>.Shown
  private let shownAfter: ClientKnowledge<Int64>.Shown
  /// To whom something else happened meanwhile.
  private let users: Set<UserKey>
  private let collections: Set<ExactText>

  init(
    _ collection: MessageCollection, _ view: ChannelView, _ log: [LoggedChange], since: Int64, until: Int64,
    from before: LoadedRange, _ diff: borrowing MessageDiff
  ) {
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
    users = Set(log.compactMap(\.change.user))
    collections = Set(log.compactMap { $0.change.collection.map { ExactText($0) } })
  }

  /// Whether that view, whose user sees the channel so, is to be told the same. It changes nothing.
  package func matches(_ view: MessageCollection, _ own: ChannelView) -> Bool {
    guard view.channel == channel, !users.contains(view.user), !collections.contains(ExactText(view.id)),
      view.request == request, own.isJoined, own.channel == channel, own.floorAt == floorAt,
      !own.hasUnsent
    else { return false }
    return view.state.withLock { isAlike($0) }
  }

  /// Has the view remember that it was told this answer. False: it moved on since it matched, and is not to
  /// be told it.
  package func adopt(by view: MessageCollection) -> Bool {
    view.state.withLock { state in
      guard isAlike(state) else { return false }
      var shown = state.known.shown(at: since)
      if shown.versions == shownBefore.versions {
        shown = shownAfter
      } else {
        for id in knew.keys { shown.versions[id] = shownAfter.versions[id] }
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
