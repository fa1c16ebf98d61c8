import ChatCache
import ChatModel
import Platform

/// The status of the link and of users, as the worker last wrote it, for callers that may not wait for the
/// worker.
final class SyncStatusBoard: Sendable {
  /// What all users share.
  struct Common: Sendable, Equatable {
    var link = LinkState.unknown
    var generation: Int64 = 0
    /// When the next probe is due (monotonic ms).
    var nextProbeAt: Int64?
    var capabilities: [Capability: Bool] = [:]
    /// The usual poll interval of channels with an open view, and of the other channels (ms). A tail counts
    /// as stale when its polls are late (B25).
    var openInterval: Int64 = 30_000
    var idleInterval: Int64 = 30_000
    /// The poll interval that users are told. It grows when polls are late.
    var told = ToldInterval()
    /// Channels whose newest messages are still being fetched.
    var channelsBehind = 0
  }

  private struct User {
    var status: UserSyncStatus?
    /// When the worker was last told that the user makes requests (monotonic ms).
    var toldAt: Int64
  }

  private struct State {
    var common = Common()
    var watched: Set<ChannelURL> = []
    var users: [UserID: User] = [:]
  }

  /// How often the worker is told that a user still makes requests (ms).
  private static let tellInterval: Int64 = 10_000

  private let state = Guarded(State())
  private let clock: Clock

  init(clock: Clock) { self.clock = clock }

  private var now: Int64 { Int64(clock.monotonicNanoseconds() / 1_000_000) }

  // MARK: The worker writes

  func write(_ common: Common) { state.withLock { $0.common = common } }

  /// Whether the channel has an open view and a connected user.
  func write(isWatched: Bool, _ channel: ChannelURL) {
    state.withLock { state in
      if isWatched { state.watched.insert(channel) } else { state.watched.remove(channel) }
    }
  }

  /// Nil: nothing of the user is left.
  func write(_ status: UserSyncStatus?, of user: UserID) {
    state.withLock { state in
      if let status {
        state.users[user, default: User(status: nil, toldAt: 0)].status = status
      } else {
        state.users[user] = nil
      }
    }
  }

  // MARK: Others read

  var link: LinkStatus {
    let common = state.withLock { $0.common }
    return LinkStatus(
      common.link, generation: common.generation, retryAfter: retryAfter(common),
      capabilities: common.capabilities)
  }

  func pollInterval(of channel: ChannelURL) -> Int64 {
    state.withLock { $0.watched.contains(channel) ? $0.common.openInterval : $0.common.idleInterval }
  }

  func connection(of user: UserID) -> UserConnection {
    let (common, status) = state.withLock { ($0.common, $0.users[user]?.status) }
    return SyncStatusBoard.connection(
      user, status, common, pollInterval: common.told.milliseconds(now: now), retryAfter: retryAfter(common))
  }

  /// Whether the user may be answered, and whether the worker must be told of the user's request.
  func look(at user: UserID) -> (admission: Admission, isWorkerTold: Bool) {
    let now = now
    let (common, status, isNews) = state.withLock { state in
      let known = state.users[user]
      let isAsleep = known?.status?.phase == .idle
      let isNews = known.map { isAsleep || now - $0.toldAt >= SyncStatusBoard.tellInterval } ?? true
      if isNews { state.users[user, default: User(status: nil, toldAt: now)].toldAt = now }
      return (state.common, known?.status, isNews)
    }
    let admission = SyncStatusBoard.admission(status, common, retryAfter: retryAfter(common))
    return (admission, isNews)
  }

  private func retryAfter(_ common: Common) -> Int64? {
    guard case .offline(let loss) = common.link, loss != .none else { return nil }
    return max(1_000, (common.nextProbeAt ?? now) - now)
  }

  private static func admission(
    _ status: UserSyncStatus?, _ common: Common, retryAfter: Int64?
  ) -> Admission {
    if let status {
      if status.phase == .closed { return .refused(.userUnknown) }
      if status.isCached, !status.isBarred { return .admitted }
    }
    guard case .offline(let loss) = common.link else { return .undecided }
    return .refused(.unreachable(loss, retryAfter: retryAfter ?? 60_000))
  }

  private static func connection(
    _ user: UserID, _ status: UserSyncStatus?, _ common: Common, pollInterval: Int64, retryAfter: Int64?
  ) -> UserConnection {
    guard let status else { return UserConnection(user, .connecting, pollInterval: pollInterval) }
    var state: UserConnection.State
    switch status.phase {
    case .stopped, .closed: state = .stopped
    case .idle: state = .idle
    case .connecting: state = .connecting
    case .connected: state = .online
    }
    var error: SyncError?
    if status.phase == .closed { error = .userUnknown }
    if status.phase == .connecting || status.phase == .connected {
      if case .offline(let loss) = common.link {
        state = .offline
        error = .unreachable(loss, retryAfter: retryAfter ?? 60_000)
      }
      if common.link == .unknown { state = .connecting }
    }
    return UserConnection(
      user, state, error: error, isSynced: status.isSynced, progress: progress(status, common),
      pollInterval: pollInterval)
  }

  /// Prefetch is not counted by user, so each user is told the number of all channels that are behind.
  private static func progress(_ status: UserSyncStatus, _ common: Common) -> UserConnection.Progress {
    let listed = status.channelsListed
    guard status.isSynced else {
      return UserConnection.Progress(status.isCached ? .channels : .waiting, channelsDone: listed)
    }
    let behind = min(common.channelsBehind, listed)
    guard behind > 0 else {
      return UserConnection.Progress(.steady, channelsDone: listed, channelsTotal: listed)
    }
    return UserConnection.Progress(.messages, channelsDone: listed - behind, channelsTotal: listed)
  }
}
