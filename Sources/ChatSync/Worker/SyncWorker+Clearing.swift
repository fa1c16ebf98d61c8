import ChatCache
import ChatModel

// What was let go of on request, and comes back by itself (B58).
extension SyncWorker {
  /// What the jobs and reads under way bring for it counts for nothing any more: they asked before. All
  /// that is missing now is asked for again.
  func cleared(_ scope: Cleared) {
    guard !isStopped else { return }
    if scope.isEverything {
      sweeps = [:]
      pendingNotes = [:]
      unanswered = [:]
      reads = [:]
      plan.clearedEverything(now: now)
    }
    for url in scope.channels where !scope.isEverything {
      reads = reads.filter { $0.key.channel != url }
      plan.cleared(url, now: now)
    }
    turn()
  }
}

extension SyncWorker {
  /// The cache has room for what nobody asked for again, or has none any more (B33).
  func roomChanged() {
    guard !isStopped else { return }
    plan.hasRoom = store.hasRoom
    turn()
  }
}

extension SyncWorker.Read {
  /// The channel whose messages are read.
  fileprivate var channel: ChannelURL? {
    if case .messages(let wanted) = self { return wanted.channel }
    return nil
  }
}
