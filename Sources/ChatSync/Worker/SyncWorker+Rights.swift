import ChatCache
import ChatModel
import Platform

// Tells the cache whose changes are not known (`KnownRights`). Other members' reads and polls go on storing
// messages meanwhile, and the user may be in the channel no longer (B1).
extension SyncWorker {
  /// Why a user's changes are not known.
  enum Unknown {
    /// The service has just started, the user is disconnected, or the upstream refused the user.
    case away
    /// The user made no request for a long time (B4).
    case resting
    /// The link is down, or a question about the user's channels was not answered.
    case unanswered
  }

  /// Called at a start, before anything is asked of the upstream.
  func holdAllRights() throws {
    try store.holdRightsOfAll()
    for user in plan.users.names { heldRights[user] = .away }
  }

  /// Holds or releases the user's rights, if the user's changes became unknown or known.
  func noteRights(of user: UserID) {
    guard let work = plan.users[user] else {
      heldRights[user] = nil
      return
    }
    if let reason = unknown(work) {
      // Also who is held already: a new user had no row when that began.
      holdRights(of: [user], reason)
      if reason == .away, heldRights[user] != nil { heldRights[user] = .away }
    } else if heldRights[user] != nil {
      // The user may have left a channel since a page of a listing met it: the listing ends, then a poll
      // follows. A listing of one page tells all at one moment.
      if work.isSynced, !work.isCatchingUp, work.phase != .connecting { releaseRights(of: user) }
    }
  }

  private func unknown(_ work: UserWork) -> Unknown? {
    if work.state.phase == .idle { return .resting }
    if !work.state.isActive || work.denial != nil { return .away }
    return work.isSynced && work.isUnknown || !plan.link.isOnline ? .unanswered : nil
  }

  /// The link was lost, maybe only for a moment. Who is held already stays so; a new user had no row yet when
  /// that began.
  func holdRightsAfterLoss() { holdRights(of: plan.users.names, .unanswered) }

  /// A user came back while the link is down. Who only rested may see what is stored now.
  func cameBack(_ user: UserID) {
    guard plan.users[user]?.state.isActive ?? false, !plan.link.isOnline, heldRights[user] == .resting else {
      return
    }
    logged("raise_rights") { try store.raiseRights(of: user, to: store.mark()) }
  }

  /// A webhook says that the user left a channel. Nothing that comes now is shown to the user, also if the
  /// user only rested, or is not listed yet.
  func holdLeaver(_ user: UserID) {
    guard plan.users[user] != nil else { return }
    if heldRights[user] == .resting { heldRights[user] = .unanswered }
    holdRights(of: [user], .unanswered)
  }

  /// Gives `reply` when the user's changes are stored.
  package func awaitChanges(of user: UserID, _ reply: Reply<Void>) {
    seen(user)
    guard heldRights[user] != nil, !isStopped else { return reply.give(()) }
    plan.users[user]?.isAwaited = true
    rightsWaiters[user, default: []].removeAll { $0.isGiven }
    rightsWaiters[user, default: []].append(reply)
  }

  /// Ends all waits for users' changes.
  func endRightsWaits() {
    for reply in rightsWaiters.values.flatMap({ $0 }) { reply.give(()) }
    rightsWaiters = [:]
  }

  private func holdRights(of users: [UserID], _ reason: Unknown) {
    for user in users {
      if heldRights[user] == nil { heldRights[user] = reason }
      logged("hold_rights") { try store.holdRights(of: [user]) }
    }
  }

  private func releaseRights(of user: UserID) {
    logged("release_rights") {
      try store.releaseRights(of: user)
      heldRights[user] = nil
      for reply in rightsWaiters.removeValue(forKey: user) ?? [] { reply.give(()) }
    }
  }

  private func logged(_ job: Log.Field, _ body: () throws -> Void) {
    do { try body() } catch {
      Log.line(.error, "sync_store_failed", ["job": job, "reason": .text("\(error)")])
    }
  }
}
