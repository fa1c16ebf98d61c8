import ChatModel
import MicroHTTP

// Requests that are held until something is known. Between the question and the answer the token may end, its
// secret may be withdrawn and the user may be closed; membership and floor are read with the rows.

extension RouteContext {
  /// Holds a request. Before `body` answers it, the caller's right is looked at again (B1, B51).
  ///
  /// `refused` is run where the caller has lost the right: to give up what was opened for the request.
  func hold(
    _ request: Request, of caller: Caller, scope: Scopes = .chat, milliseconds: Int,
    refused: @escaping () -> Void = {}, _ body: @escaping (Wake) throws -> Outcome
  ) -> Outcome {
    .park(
      Parking(request.makeWaiter(), milliseconds: milliseconds) { [self] wake in
        // A client that left reads nothing: `body` only gives up what it subscribed to.
        if wake == .hungUp { return try body(wake) }
        do { try admitAgain(caller, request, scope: scope) } catch {
          refused()
          throw error
        }
        return try body(wake)
      })
  }

  /// Refuses a caller who would not be let in any more: the token ended, its secret was withdrawn, or the
  /// user was closed.
  func admitAgain(_ caller: Caller, _ request: Request, scope: Scopes = .chat) throws {
    if !gate.admitsStill(caller), try gate.caller(of: request, scope: scope).user != caller.user {
      throw Problem(401, "unauthorized", detail: "The token now names another user: ask again.")
    }
    if case .refused(let error) = syncRequests.seen(caller.user) { throw Problem(error) }
  }
}
