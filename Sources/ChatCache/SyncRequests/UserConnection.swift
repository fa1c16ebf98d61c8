import ChatModel

/// A user's connection state, as `GET /v1/connection` answers it.
package struct UserConnection: Sendable, Equatable {
  /// The states of the contract (B3).
  package enum State: String, Sendable { case connecting, online, offline, stopped, idle }

  /// How much of the user's channels and messages is in the cache.
  package struct Progress: Sendable, Equatable {
    /// The steps of a user's first sync.
    package enum Phase: String, Sendable {
      /// The upstream was not asked yet.
      case waiting
      /// The first listing of all channels (B11).
      case channels
      /// All channels are known; their newest messages are being fetched (B33).
      case messages
      /// The first sync is complete; changes are polled.
      case steady
    }
    /// The present step.
    package var phase: Phase
    /// The number of channels listed; in phase `messages`, the number whose messages are fetched.
    package var channelsDone: Int
    /// The number of the user's channels, if it is known.
    package var channelsTotal: Int?

    /// A progress in this phase.
    package init(_ phase: Phase, channelsDone: Int = 0, channelsTotal: Int? = nil) {
      self.phase = phase
      self.channelsDone = channelsDone
      self.channelsTotal = channelsTotal
    }
  }

  /// The user's id.
  package var user: UserID
  /// The connection state.
  package var state: State
  /// Why the user is not online; nil while there is no error.
  package var error: SyncError?
  /// Whether all of the user's channels were listed once. From then on an unknown channel is a 404 (B1).
  package var isSynced: Bool
  /// The progress of the first sync.
  package var progress: Progress
  /// The interval between two polls of the user's channels (ms).
  package var pollInterval: Int64

  /// Whether the user's changes are being fetched, or are about to be.
  package var isBeingUpdated: Bool { state != .offline && state != .stopped }

  /// A user in this state.
  package init(
    _ user: UserID, _ state: State, error: SyncError? = nil, isSynced: Bool = false,
    progress: Progress = Progress(.waiting), pollInterval: Int64 = 30_000
  ) {
    self.user = user
    self.state = state
    self.error = error
    self.isSynced = isSynced
    self.progress = progress
    self.pollInterval = pollInterval
  }
}
