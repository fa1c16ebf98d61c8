import ChatModel
import MicroHTTP

// Requests that are held until their answer is known. Meanwhile the token may end, its secret may be
// withdrawn and the user may be closed. Membership and floor need no check here: they are read together with
// the rows.

extension RouteContext {
  /// Holds a request. Before `body` answers it, the caller's right is checked again (B1, B51).
  ///
  /// If the caller has lost the right, `refused` runs: it releases what was opened for the request.
  func hold(
    _ request: Request, of caller: Caller, scope: Scopes = .chat, milliseconds: Int,
    refused: @escaping () -> Void = {}, _ body: @escaping (Wake) throws -> Outcome
  ) -> Outcome {
    .park(
      Parking(request.makeWaiter(), milliseconds: milliseconds) { [self] wake in
        // The client has left and gets no answer, so its right needs no check: `body` only ends its
        // subscription.
        if wake == .hungUp { return try body(wake) }
        do { try admitAgain(caller, request, scope: scope) } catch {
          refused()
          throw error
        }
        return try body(wake)
      })
  }

  /// Holds a request whose write is durable until `done` is called, at most so many milliseconds. Its answer
  /// only says that something was stored, so the caller's right is not checked again. `isDone`: whether there
  /// is nothing to wait for.
  func hold(
    _ request: Request, milliseconds: Int, answer: @escaping () -> Outcome,
    unless isDone: (_ done: @escaping @Sendable () -> Void) -> Bool
  ) -> Outcome {
    let waiter = request.makeWaiter()
    guard !isDone({ waiter.wake() }) else { return answer() }
    return .park(Parking(waiter, milliseconds: milliseconds) { _ in answer() })
  }

  /// Throws if the caller has lost the right: the token ended, its secret was withdrawn, it names another
  /// user now, or `syncRequests` refuses the user.
  func admitAgain(_ caller: Caller, _ request: Request, scope: Scopes = .chat) throws {
    if !gate.admitsStill(caller), try gate.caller(of: request, scope: scope).user != caller.user {
      throw Problem(401, "unauthorized", detail: "The token now names another user: ask again.")
    }
    if !caller.isOperatorAlone, case .refused(let error) = syncRequests.seen(caller.user) {
      throw Problem(error)
    }
  }
}
