import ChatCache
import MicroHTTP
import Platform

/// `POST /v1/webhooks/sendbird`: the upstream's webhooks (B34, B61).
///
/// The sender must have signed the exact bytes of the body. The route stores what the webhook names durably,
/// then answers 200. Nothing is asked before the answer, because the upstream counts slow answers as failures
/// and repeats them. A webhook that could not be stored is a 503, so that the upstream sends it again.
enum SendbirdWebhookRoute {
  /// Bytes of a body; the upstream's are some KB, more with many members.
  static let bodyBytes = 1 << 20
  /// How long noting may take (ms); the upstream gives up after 5 s.
  static let noteMilliseconds = 4_000

  static func routes(_ syncRequests: any SyncRequests, _ signature: WebhookSignature?) -> [Route] {
    [
      Route(
        .post, "/v1/webhooks/sendbird", operation: "receiveSendbirdWebhook",
        body: .collected(limit: bodyBytes, types: ["application/json"], required: true)
      ) { request in
        guard let signature, let given = request.header("x-sendbird-signature"),
          signature.isGood(given, of: request.body)
        else {
          throw Problem(
            401, "bad_signature",
            detail:
              "Sign the raw body with HMAC-SHA256 and the secret of --webhook-secret, in lower-case hex.",
            headers: [("WWW-Authenticate", "Signature header=\"x-sendbird-signature\"")])
        }
        let noted = Guarded<Result<Int, SyncError>?>(nil)
        let waiter = request.makeWaiter()
        syncRequests.takeWebhook(Array(request.body)) { outcome in
          noted.withLock { $0 = outcome }
          waiter.wake()
        }
        return .park(
          Parking(waiter, milliseconds: noteMilliseconds) { _ in
            try .respond(answer(noted.withLock { $0 }))
          })
      }
    ]
  }

  /// The answer to the outcome of the note. A body that is no webhook is not noted.
  private static func answer(_ noted: Result<Int, SyncError>?) throws -> Response {
    switch noted {
    case .success: return .empty(200)
    case .failure(.unreadable(let field)): throw Problem(.unreadable(field: field))
    case .failure, nil:
      throw Problem(
        503, "storage_unavailable", detail: "The webhook could not be noted: send it again.",
        headers: [("Retry-After", "1")])
    }
  }
}
