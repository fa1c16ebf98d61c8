import ChatModel

/// Where a user stands, for `GET /v1/connection`.
package struct UserConnection: Sendable, Equatable {
  /// The contract's words (B3).
  package enum State: String, Sendable { case connecting, online, offline, stopped, idle }

  /// How far the user's channels and messages are in the cache.
  package struct Progress: Sendable, Equatable {
    /// What is being done.
    package enum Phase: String, Sendable {
      /// The upstream was not asked yet.
      case waiting
      /// The first listing of all channels (B11).
      case channels
      /// All channels are known; their newest messages are being fetched (B33).
      case messages
      /// Everything wanted is there; changes are followed.
      case steady
    }
    /// What is being done.
    package var phase: Phase
    /// Channels listed, or in phase `messages` those whose messages are there.
    package var channelsDone: Int
    /// Channels there are, where that is known.
    package var channelsTotal: Int?

    /// So far.
    package init(_ phase: Phase, channelsDone: Int = 0, channelsTotal: Int? = nil) {
      self.phase = phase
      self.channelsDone = channelsDone
      self.channelsTotal = channelsTotal
    }
  }

  /// Who.
  package var user: UserID
  /// Where the user stands.
  package var state: State
  /// What keeps the user from being online, while something does.
  package var error: SyncError?
  /// Whether all of the user's channels were listed once: an unknown channel is none from then on (B1).
  package var isSynced: Bool
  /// How far it got.
  package var progress: Progress

  /// A user who stands so.
  package init(
    _ user: UserID, _ state: State, error: SyncError? = nil, isSynced: Bool = false,
    progress: Progress = Progress(.waiting)
  ) {
    self.user = user
    self.state = state
    self.error = error
    self.isSynced = isSynced
    self.progress = progress
  }
}
