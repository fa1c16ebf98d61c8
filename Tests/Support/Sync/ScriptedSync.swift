import ChatCache
import ChatModel
import Platform

/// A stand-in for the sync worker, for tests of routes and collections. It answers as scripted, at once or at
/// `release`, and records every call.
///
/// Without a script the link is online, every user is admitted and synced, and every request is answered
/// `.stored` although nothing was stored: set `onFetch` to put rows into the cache first.
package final class ScriptedSync: SyncRequests {
  /// A recorded call.
  package enum Call: Sendable, Equatable {
    case seen(UserID)
    case admit(UserID, within: Int)
    case connect(UserID, within: Int)
    case disconnect(UserID)
    case forget(UserID, isForced: Bool)
    case accepted(UserID, ChannelURL)
    case awaitChanges(UserID, within: Int)
    case fetch(MessageSyncRequest, within: Int)
    case fetchChannels(UserID, within: Int)
    case fetchMembers([ChannelURL], within: Int)
    case find(ChannelURL, as: UserID, within: Int)
    case fill(Int64, ChannelURL)
    case stopFilling(Int64, ChannelURL)
    case opened(OpenView, isOwedAnswer: Bool)
    case moved(OpenView)
    case closed(String, ChannelURL)
    case takeWebhook([UInt8])
    case healed
  }

  /// The scripted answers.
  package struct Script: Sendable {
    /// The link.
    package var link = LinkStatus(.online, generation: 1)
    /// How often channels are polled (ms).
    package var pollInterval: Int64 = 30_000
    /// The connections of users that are not online and synced.
    package var connections: [UserID: UserConnection] = [:]
    /// Users that are not admitted at once.
    package var admissions: [UserID: Admission] = [:]
    /// The users for whom `admit` and `connect` fail, with the error.
    package var refusals: [UserID: SyncError] = [:]
    /// The outcome of a request for messages.
    package var onFetch: @Sendable (MessageSyncRequest) -> SyncOutcome = { _ in .stored }
    /// The outcome of a request for a user's channels.
    package var onFetchChannels: @Sendable (UserID) -> SyncOutcome = { _ in .stored }
    /// The outcome of a request for channels' members.
    package var onFetchMembers: @Sendable ([ChannelURL]) -> SyncOutcome = { _ in .stored }
    /// Called before the answer to a wait for a user's changes.
    package var onAwaitChanges: @Sendable (UserID) -> Void = { _ in }
    /// The result of `find` for an unknown channel.
    package var onFind: @Sendable (ChannelURL, UserID) -> Result<Bool, SyncError> = { _, _ in .success(false)
    }
    /// The result of `forget`: the number of unsent rows that keep the user's data.
    package var onForget: @Sendable (UserID, Bool) -> Result<Int64, SyncError> = { _, _ in .success(0) }
    /// Called when a row was accepted for sending.
    package var onAccepted: @Sendable (UserID, ChannelURL) -> Void = { _, _ in }
    /// The result of `takeWebhook`.
    package var onWebhook: @Sendable ([UInt8]) -> Result<Int, SyncError> = { _ in .success(1) }
    /// Answers wait for `release`.
    package var isHolding = false
  }

  private struct State {
    var script = Script()
    var calls: [Call] = []
    var held: [@Sendable () -> Void] = []
  }

  private let state = Watched(State())

  /// A sync without a script.
  package init() {}

  /// Changes the script.
  package func tell(_ change: (inout Script) -> Void) { state.update { change(&$0.script) } }

  /// Every call, in order.
  package var calls: [Call] { state.read { $0.calls } }

  /// Waits, at most 5 s, for a call that fits; false: none came.
  package func wait(for fits: @Sendable (Call) -> Bool) -> Bool {
    let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)
    return state.wait(until: end) { $0.calls.contains(where: fits) ? true : nil } ?? false
  }

  /// Gives all held answers, and from now on answers at once.
  package func release() {
    let held = state.update { state in
      state.script.isHolding = false
      defer { state.held = [] }
      return state.held
    }
    for answer in held { answer() }
  }

  private func note(_ call: Call) -> Script {
    state.update {
      $0.calls.append(call)
      return $0.script
    }
  }

  private func answer(_ body: @escaping @Sendable () -> Void) {
    let isHeld = state.update { state in
      if state.script.isHolding { state.held.append(body) }
      return state.script.isHolding
    }
    if !isHeld { body() }
  }

  private func connection(_ user: UserID, _ script: Script) -> Result<UserConnection, SyncError> {
    if let refusal = script.refusals[user] { return .failure(refusal) }
    return .success(script.connections[user] ?? ScriptedSync.online(user))
  }

  private static func online(_ user: UserID) -> UserConnection {
    UserConnection(user, .online, isSynced: true, progress: UserConnection.Progress(.steady))
  }

  // MARK: The port

  /// See `SyncRequests`.
  package var link: LinkStatus { state.read { $0.script.link } }

  /// See `SyncRequests`.
  package func pollInterval(of channel: ChannelURL) -> Int64 { state.read { $0.script.pollInterval } }

  /// See `SyncRequests`.
  package func connection(of user: UserID) -> UserConnection {
    state.read { $0.script.connections[user] } ?? ScriptedSync.online(user)
  }

  /// See `SyncRequests`.
  package func seen(_ user: UserID) -> Admission { note(.seen(user)).admissions[user] ?? .admitted }

  /// See `SyncRequests`.
  package func admit(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, SyncError>) -> Void
  ) {
    let script = note(.admit(user, within: milliseconds))
    answer { then(self.connection(user, script)) }
  }

  /// See `SyncRequests`.
  package func connect(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, SyncError>) -> Void
  ) {
    let script = note(.connect(user, within: milliseconds))
    answer { then(self.connection(user, script)) }
  }

  /// See `SyncRequests`.
  package func disconnect(
    _ user: UserID, then: @escaping @Sendable (Result<Void, SyncError>) -> Void
  ) {
    _ = note(.disconnect(user))
    state.update { $0.script.connections[user] = UserConnection(user, .stopped, isSynced: true) }
    answer { then(.success(())) }
  }

  /// See `SyncRequests`.
  package func forget(
    _ user: UserID, isForced: Bool, then: @escaping @Sendable (Result<Int64, SyncError>) -> Void
  ) {
    let script = note(.forget(user, isForced: isForced))
    answer { then(script.onForget(user, isForced)) }
  }

  /// See `SyncRequests`.
  package func accepted(of user: UserID, in channel: ChannelURL) {
    let script = note(.accepted(user, channel))
    script.onAccepted(user, channel)
  }

  /// See `SyncRequests`.
  package func awaitChanges(of user: UserID, within milliseconds: Int, then: @escaping @Sendable () -> Void) {
    let script = note(.awaitChanges(user, within: milliseconds))
    answer {
      script.onAwaitChanges(user)
      then()
    }
  }

  /// See `SyncRequests`.
  package func fetch(
    _ wanted: MessageSyncRequest, for user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (SyncOutcome) -> Void
  ) {
    let script = note(.fetch(wanted, within: milliseconds))
    answer { then(script.onFetch(wanted)) }
  }

  /// See `SyncRequests`.
  package func fetchChannels(
    of user: UserID, within milliseconds: Int, then: @escaping @Sendable (SyncOutcome) -> Void
  ) {
    let script = note(.fetchChannels(user, within: milliseconds))
    answer { then(script.onFetchChannels(user)) }
  }

  /// See `SyncRequests`.
  package func fetchMembers(
    of channels: [ChannelURL], for user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (SyncOutcome) -> Void
  ) {
    let script = note(.fetchMembers(channels, within: milliseconds))
    answer { then(script.onFetchMembers(channels)) }
  }

  /// See `SyncRequests`.
  package func find(
    _ channel: ChannelURL, as user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<Bool, SyncError>) -> Void
  ) {
    let script = note(.find(channel, as: user, within: milliseconds))
    answer { then(script.onFind(channel, user)) }
  }

  /// See `SyncRequests`.
  package func fill(gap: Int64, in channel: ChannelURL) { _ = note(.fill(gap, channel)) }

  /// See `SyncRequests`.
  package func stopFilling(gap: Int64, in channel: ChannelURL) { _ = note(.stopFilling(gap, channel)) }

  /// See `SyncRequests`.
  package func opened(_ view: OpenView, isOwedAnswer: Bool) {
    _ = note(.opened(view, isOwedAnswer: isOwedAnswer))
  }

  /// See `SyncRequests`.
  package func moved(_ view: OpenView) { _ = note(.moved(view)) }

  /// See `SyncRequests`.
  package func closed(view id: String, in channel: ChannelURL) { _ = note(.closed(id, channel)) }

  /// See `SyncRequests`.
  package func healed() { _ = note(.healed) }

  /// See `SyncRequests`.
  package func takeWebhook(_ webhook: [UInt8], then: @escaping @Sendable (Result<Int, SyncError>) -> Void) {
    let script = note(.takeWebhook(webhook))
    answer { then(script.onWebhook(webhook)) }
  }
}
