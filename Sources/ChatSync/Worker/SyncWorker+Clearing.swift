import ChatCache
import ChatModel

// Data that was cleared on request and has to be fetched again (B58).
extension SyncWorker {
  /// Forgets the reads under way for the cleared data, because their requests went out before. The plan
  /// fetches everything that is missing now.
  func cleared(_ scope: Cleared) {
    guard !isStopped else { return }
    if scope.isEverything {
      sweeps = [:]
      pendingNotes = [:]
      unanswered = [:]
      reads = [:]
      plan.isClearing = scope.isUnderWay
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
  /// The cache has room for prefetch again, or has none any more (B33).
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
