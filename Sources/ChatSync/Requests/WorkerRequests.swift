import ChatCache
import ChatModel
import Platform

/// The sync worker's port for the routes. Status is read from the board; requests become calls of the worker,
/// each with its own deadline.
package final class WorkerRequests: SyncRequests {
  let worker: SyncWorker
  private let board: SyncStatusBoard
  /// Lanes with accepted rows that the worker was not told of yet.
  private let acceptedLanes = Guarded<Set<OutboxLaneName>>([])

  /// Passes requests to `worker`.
  package init(_ worker: SyncWorker) {
    self.worker = worker
    board = worker.board
  }

  // MARK: Status

  /// See `SyncRequests`.
  package var link: LinkStatus { board.link }

  /// See `SyncRequests`.
  package func pollInterval(of channel: ChannelURL) -> Int64 { board.pollInterval(of: channel) }

  /// See `SyncRequests`.
  package func connection(of user: UserID) -> UserConnection { board.connection(of: user) }

  // MARK: Users

  /// See `SyncRequests`.
  package func seen(_ user: UserID) -> Admission {
    let (admission, isWorkerTold) = board.look(at: user)
    if isWorkerTold { tell { await $0.seen(user) } }
    return admission
  }

  /// See `SyncRequests`.
  package func admit(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, SyncError>) -> Void
  ) {
    let board = board
    Reply.bounded(within: milliseconds, late: { WorkerRequests.outcome(user, board) }, then: then) {
      [worker] in
      await worker.seen(user)
      await worker.decided(user)
      return WorkerRequests.outcome(user, board)
    }
  }

  /// See `SyncRequests`.
  package func connect(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, SyncError>) -> Void
  ) {
    let board = board
    Reply.bounded(within: milliseconds, late: { WorkerRequests.outcome(user, board) }, then: then) {
      [worker] in
      await worker.connect(user)
      if milliseconds > 0 { await worker.decided(user) }
      return WorkerRequests.outcome(user, board)
    }
  }

  /// B2's three outcomes: a user, a user and an error, or no user.
  private static func outcome(
    _ user: UserID, _ board: SyncStatusBoard
  ) -> Result<UserConnection, SyncError> {
    let connection = board.connection(of: user)
    switch board.look(at: user).admission {
    case .admitted: return .success(connection)
    case .refused(let error): return .failure(error)
    case .undecided: return .failure(.unreachable(.unreachable, retryAfter: 1_000))
    }
  }

  /// See `SyncRequests`.
  package func disconnect(
    _ user: UserID, then: @escaping @Sendable (Result<Void, SyncError>) -> Void
  ) {
    Task { [worker] in
      do {
        try await worker.disconnect(user)
        then(.success(()))
      } catch {
        then(.failure(.storage(reason: "\(error)")))
      }
    }
  }

  /// See `SyncRequests`.
  package func forget(
    _ user: UserID, isForced: Bool, then: @escaping @Sendable (Result<Int64, SyncError>) -> Void
  ) {
    Task { [worker] in
      do { then(.success(try await worker.forget(user, isForced: isForced))) } catch {
        then(.failure(.storage(reason: "\(error)")))
      }
    }
  }

  /// See `SyncRequests`. The first message accepted starts a task. Until the task runs, further messages only
  /// add their lanes to the set that it takes.
  package func accepted(of user: UserID, in channel: ChannelURL) {
    let isFirst = acceptedLanes.withLock { lanes in
      defer { lanes.insert(OutboxLaneName(user: user, channel: channel)) }
      return lanes.isEmpty
    }
    guard isFirst else { return }
    tell { [acceptedLanes] worker in
      let lanes = acceptedLanes.withLock { lanes in
        defer { lanes = [] }
        return lanes
      }
      await worker.accepted(in: lanes)
    }
  }

  // MARK: Fresher data

  /// See `SyncRequests`.
  package func fetch(
    _ wanted: MessageSyncRequest, for user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (SyncOutcome) -> Void
  ) {
    Reply.bounded(within: milliseconds, late: { .late }, then: then) { [worker] in
      await worker.fetch(wanted, for: user)
    }
  }

  /// See `SyncRequests`.
  package func fetchChannels(
    of user: UserID, within milliseconds: Int, then: @escaping @Sendable (SyncOutcome) -> Void
  ) {
    Reply.bounded(within: milliseconds, late: { .late }, then: then) { [worker] in
      await worker.fetchChannels(of: user)
    }
  }

  /// See `SyncRequests`.
  package func fetchMembers(
    of channels: [ChannelURL], for user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (SyncOutcome) -> Void
  ) {
    Reply.bounded(within: milliseconds, late: { .late }, then: then) { [worker] in
      await worker.fetchMembers(of: channels, for: user)
    }
  }

  /// See `SyncRequests`.
  package func find(
    _ channel: ChannelURL, as user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<Bool, SyncError>) -> Void
  ) {
    do {
      // The cache is asked, too, because the board learns of a clear only after its commit.
      if board.connection(of: user).isSynced, try worker.store.isSynced(user) {
        return then(.success(false))
      }
    } catch {
      return then(.failure(.storage(reason: "\(error)")))
    }
    Reply.bounded(
      within: milliseconds, late: { .failure(.notSynced(retryAfter: 1_000)) }, then: then
    ) { [worker] in
      await worker.find(channel, as: user)
    }
  }

  /// See `SyncRequests`.
  package func awaitChanges(
    of user: UserID, within milliseconds: Int, then: @escaping @Sendable () -> Void
  ) {
    let reply = Reply<Void>.bounded(within: milliseconds, late: {}, then: then)
    tell { await $0.awaitChanges(of: user, reply) }
  }

  // MARK: Gaps, views, webhooks

  /// See `SyncRequests`.
  package func fill(gap: Int64, in channel: ChannelURL) {
    tell { await $0.fill(gap: gap, in: channel, isWanted: true) }
  }

  /// See `SyncRequests`.
  package func stopFilling(gap: Int64, in channel: ChannelURL) {
    tell { await $0.fill(gap: gap, in: channel, isWanted: false) }
  }

  /// See `SyncRequests`.
  package func opened(_ view: OpenView, isOwedAnswer: Bool) {
    worker.ordered.append { [worker] in await worker.open(view, isNew: isOwedAnswer) }
  }

  /// See `SyncRequests`.
  package func moved(_ view: OpenView) {
    worker.ordered.append { [worker] in await worker.open(view, isNew: false) }
  }

  /// See `SyncRequests`.
  package func closed(view id: String, in channel: ChannelURL) {
    worker.ordered.append { [worker] in await worker.close(view: id, in: channel) }
  }

  /// See `SyncRequests`.
  package func takeWebhook(_ webhook: [UInt8], then: @escaping @Sendable (Result<Int, SyncError>) -> Void) {
    Task { [worker] in then(await worker.takeWebhook(webhook)) }
  }

  /// See `SyncRequests`.
  package func healed() { tell { await $0.lookIntoNotes() } }

  private func tell(_ body: @escaping @Sendable (SyncWorker) async -> Void) {
    Task { [worker] in await body(worker) }
  }
}
