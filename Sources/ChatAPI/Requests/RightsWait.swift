import ChatCache
import ChatModel
import MicroHTTP
import Platform

/// The wait of a request for its user's changes. Until they are known, the user is told no news (B1).
final class RightsWait: Sendable {
  /// How long one request to the sync worker waits (ms).
  private static let longestWait = 30_000

  private let isWaiting = Guarded(false)
  private let waiter: Waiter

  init(_ waiter: Waiter) { self.waiter = waiter }

  /// Wakes the request when the changes may be known.
  func await(of user: UserID, _ request: Request, _ syncRequests: any SyncRequests) {
    let isFirst = isWaiting.withLock { isWaiting in
      defer { isWaiting = true }
      return !isWaiting
    }
    guard isFirst, !request.isServerStopping else { return }
    syncRequests.awaitChanges(of: user, within: RightsWait.longestWait) { [self] in
      isWaiting.withLock { $0 = false }
      waiter.wake()
    }
  }

  /// The same for a poll or stream.
  func await(for follower: Follower) {
    self.await(of: follower.caller.user, follower.request, follower.context.route.syncRequests)
  }
}
