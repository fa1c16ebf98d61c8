import ChatCache
import ChatModel
import Platform

// Connects, disconnects and forgets users (B2, B4, B5), and publishes the status of all users.
extension SyncWorker {
  /// A request of the user came: connects a new user, wakes an idle one (B2, B4).
  package func seen(_ user: UserID) {
    if plan.status(of: user) == nil { plan.add(user, isSynced: false, isCached: false, now: now) }
    let wasActive = plan.users[user]?.state.isActive ?? false
    plan.seen(user, now: now)
    if !wasActive { cameBack(user) }
    turn()
  }

  /// Connects the user, in whatever phase the user was (B2).
  package func connect(_ user: UserID) {
    let wasActive = plan.users[user]?.state.isActive ?? false
    plan.connect(user, now: now)
    if !wasActive { cameBack(user) }
    turn()
  }

  /// Waits until the upstream has answered about the user, or is known to be unusable.
  package func decided(_ user: UserID) async {
    guard isUndecided(user), !isStopped else { return }
    await withCheckedContinuation { handshakes[user, default: []].append($0) }
  }

  private func isUndecided(_ user: UserID) -> Bool {
    guard let status = plan.status(of: user) else { return false }
    return status.phase == .connecting && status.denial == nil && !isLinkUnusable
  }

  /// Whether the link is down and nothing asks at present whether it is back.
  private var isLinkUnusable: Bool {
    if case .offline = plan.link.state { !plan.running.contains(.probe) } else { false }
  }

  /// Publishes the status of all users, and resumes the tasks that waited for it.
  func publish() {
    board.write(
      SyncStatusBoard.Common(
        link: plan.link.state, generation: plan.link.generation, nextProbeAt: plan.link.nextProbeAt,
        capabilities: plan.capabilities, openInterval: plan.openInterval(now: now),
        idleInterval: plan.userInterval(now: now), told: plan.toldInterval(now: now),
        channelsBehind: plan.channelsBehind))
    for url in plan.channels.takeChangedWatches() {
      board.write(isWatched: plan.channels.watched.contains(url), url)
    }
    let changed = plan.takeChangedUsers()
    for user in changed {
      noteRights(of: user)
      board.write(plan.status(of: user), of: user)
    }
    resumeTasks(of: changed)
  }

  /// Resumes the tasks that wait for one of these users. Where the link is down, nobody waits any more.
  private func resumeTasks(of changed: Set<UserID>) {
    for user in isLinkUnusable ? Set(handshakes.keys) : changed where !isUndecided(user) {
      for waiting in handshakes.removeValue(forKey: user) ?? [] { waiting.resume() }
    }
    for user in linkFailure == nil ? changed : Set(catchUps.keys) where !isBehind(user) {
      endCatchUp(of: user)
    }
  }

  /// Stores the first refusal, so that a restart does not begin to count again (B5).
  func noteRefusal(_ user: UserID) async {
    guard let work = plan.users[user], work.isCached, work.state.refusedAt != nil else { return }
    do { try await store.refuse(user) } catch {
      Log.line(.error, "sync_store_failed", ["job": "refuse", "reason": .text("\(error)")])
    }
  }

  /// Removes the users who were closed long ago (B5).
  func forgetClosed() async {
    do {
      let users = try await store.forgetClosed(after: Limits.closedMilliseconds)
      for user in users where plan.status(of: user)?.phase == .closed {
        plan.remove(user)
        Log.line(.info, "closed_user_forgotten")
      }
      publish()
    } catch {
      Log.line(.error, "sync_store_failed", ["job": "forget_closed", "reason": .text("\(error)")])
    }
  }

  /// Stores that the user is closed, if the last job ended so: the upstream said twice that the user is gone.
  func closeIfGone(_ user: UserID) async {
    guard let status = plan.status(of: user), status.phase == .closed, status.isCached else { return }
    do {
      try await store.close(user)
      await sortChannels(of: user)
    } catch {
      Log.line(.error, "sync_store_failed", ["job": "close", "reason": .text("\(error)")])
    }
  }

  /// Stops working for the user, over restarts too (B4). If that cannot be stored, the work goes on.
  package func disconnect(_ user: UserID) async throws {
    let before = plan.users[user]?.state.phase ?? .stopped
    plan.stop(user)
    turn()
    await endJobs(of: user)
    do { try await store.stop(user) } catch {
      if before != .stopped, before != .closed { connect(user) }
      throw error
    }
    await sortChannels(of: user)
  }

  /// Stops working for the user and removes the data of this user alone. If the user has unsent rows and
  /// `isForced` is false, changes nothing and returns their number (B4).
  package func forget(_ user: UserID, isForced: Bool) async throws -> Int64 {
    plan.hold(user)
    await endJobs(of: user)
    do {
      let channels = try await channels(of: user)
      let unsent = try await store.forget(user, isForced: isForced)
      if unsent > 0 { plan.letGo(user, now: now) } else { plan.remove(user) }
      await sort(channels)
      return unsent
    } catch {
      plan.letGo(user, now: now)
      turn()
      throw error
    }
  }

  /// Ends the user's jobs, so that no answer to them is stored afterwards.
  private func endJobs(of user: UserID) async {
    let running = tasks.filter { $0.key.user == user }.map(\.value)
    for task in running { task.cancel() }
    for task in running { await task.value }
  }

  /// Whether something of the user waits to be sent: then the user does not go idle (B4).
  package func unsent(_ isWaiting: Bool, of user: UserID) { plan.users[user]?.hasUnsent = isWaiting }

  /// The user's status.
  package func status(of user: UserID) -> UserSyncStatus? { plan.status(of: user) }

  /// A client sent a message: an offline link is tried at once (B3).
  package func urge() {
    plan.urge(now: now)
    turn()
  }
}
