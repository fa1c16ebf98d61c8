import ChatCache
import ChatModel
import Platform

/// The worker as those who serve clients see it: looks at the board, and wishes that become calls of the
/// worker, each bounded by its own deadline.
package final class SyncInterest: Interest {
  let worker: SyncWorker
  private let board: StandingBoard
  /// Lanes in which something was accepted, of which the worker was not told yet.
  private let acceptedLanes = Guarded<Set<OutboxLaneName>>([])

  /// The wishes' way to `worker`.
  package init(_ worker: SyncWorker) {
    self.worker = worker
    board = worker.board
  }

  // MARK: Where things stand

  /// See `Interest`.
  package var link: LinkStanding { board.link }

  /// See `Interest`.
  package func pollInterval(of channel: ChannelURL) -> Int64 { board.pollInterval(of: channel) }

  /// See `Interest`.
  package func connection(of user: UserID) -> UserConnection { board.connection(of: user) }

  // MARK: Users

  /// See `Interest`.
  package func seen(_ user: UserID) -> Admission {
    let (admission, isWorkerTold) = board.look(at: user)
    if isWorkerTold { tell { await $0.seen(user) } }
    return admission
  }

  /// See `Interest`.
  package func admit(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, WishError>) -> Void
  ) {
    let board = board
    Reply.bounded(within: milliseconds, late: { SyncInterest.outcome(user, board) }, then: then) {
      [worker] in
      await worker.seen(user)
      await worker.decided(user)
      return SyncInterest.outcome(user, board)
    }
  }

  /// See `Interest`.
  package func connect(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, WishError>) -> Void
  ) {
    let board = board
    Reply.bounded(within: milliseconds, late: { SyncInterest.outcome(user, board) }, then: then) {
      [worker] in
      await worker.connect(user)
      if milliseconds > 0 { await worker.decided(user) }
      return SyncInterest.outcome(user, board)
    }
  }

  /// B2's three outcomes: a user, a user and an error, or no user.
  private static func outcome(
    _ user: UserID, _ board: StandingBoard
  ) -> Result<UserConnection, WishError> {
    let connection = board.connection(of: user)
    switch board.look(at: user).admission {
    case .admitted: return .success(connection)
    case .refused(let error): return .failure(error)
    case .undecided: return .failure(.unreachable(.unreachable, retryAfter: 1_000))
    }
  }

  /// See `Interest`.
  package func disconnect(
    _ user: UserID, then: @escaping @Sendable (Result<Void, WishError>) -> Void
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

  /// See `Interest`.
  package func forget(
    _ user: UserID, isForced: Bool, then: @escaping @Sendable (Result<Int64, WishError>) -> Void
  ) {
    Task { [worker] in
      do { then(.success(try await worker.forget(user, isForced: isForced))) } catch {
        then(.failure(.storage(reason: "\(error)")))
      }
    }
  }

  /// See `Interest`. The first message accepted starts a task. Until the task runs, further messages only add
  /// their lanes to the set that it takes.
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

  /// See `Interest`.
  package func fetch(
    _ wish: MessageWish, within milliseconds: Int, then: @escaping @Sendable (Fetched) -> Void
  ) {
    Reply.bounded(within: milliseconds, late: { .late }, then: then) { [worker] in await worker.fetch(wish) }
  }

  /// See `Interest`.
  package func fetchChannels(
    of user: UserID, within milliseconds: Int, then: @escaping @Sendable (Fetched) -> Void
  ) {
    Reply.bounded(within: milliseconds, late: { .late }, then: then) { [worker] in
      await worker.fetchChannels(of: user)
    }
  }

  /// See `Interest`.
  package func fetchMembers(
    of channels: [ChannelURL], within milliseconds: Int, then: @escaping @Sendable (Fetched) -> Void
  ) {
    Reply.bounded(within: milliseconds, late: { .late }, then: then) { [worker] in
      await worker.fetchMembers(of: channels)
    }
  }

  /// See `Interest`.
  package func find(
    _ channel: ChannelURL, as user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<Bool, WishError>) -> Void
  ) {
    if board.connection(of: user).isSynced { return then(.success(false)) }
    Reply.bounded(
      within: milliseconds, late: { .failure(.notSynced(retryAfter: 1_000)) }, then: then
    ) { [worker] in
      await worker.find(channel, as: user)
    }
  }

  // MARK: Gaps, views, webhooks

  /// See `Interest`.
  package func fill(gap: Int64, in channel: ChannelURL) {
    tell { await $0.fill(gap: gap, in: channel, isWanted: true) }
  }

  /// See `Interest`.
  package func stopFilling(gap: Int64, in channel: ChannelURL) {
    tell { await $0.fill(gap: gap, in: channel, isWanted: false) }
  }

  /// See `Interest`.
  package func opened(_ view: OpenView, isOwedAnswer: Bool) {
    worker.ordered.append { [worker] in await worker.open(view, isNew: isOwedAnswer) }
  }

  /// See `Interest`.
  package func moved(_ view: OpenView) {
    worker.ordered.append { [worker] in await worker.open(view, isNew: false) }
  }

  /// See `Interest`.
  package func closed(view id: String, in channel: ChannelURL) {
    worker.ordered.append { [worker] in await worker.close(view: id, in: channel) }
  }

  /// See `Interest`.
  package func takeWebhook(_ webhook: [UInt8], then: @escaping @Sendable (Result<Int, WishError>) -> Void) {
    Task { [worker] in then(await worker.takeWebhook(webhook)) }
  }

  /// See `Interest`.
  package func healed() { tell { await $0.lookIntoNotes() } }

  private func tell(_ body: @escaping @Sendable (SyncWorker) async -> Void) {
    Task { [worker] in await body(worker) }
  }
}
