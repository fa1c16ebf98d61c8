/// What each problem code means and what a client does next: the page behind a problem's `type`.
///
/// Every code that the service answers with is in this table; a test reads the sources for them.
enum ProblemTable {
  /// A code's meaning.
  struct Meaning: Sendable {
    let status: Int
    let code: String
    let meaning: String

    init(_ status: Int, _ code: String, _ meaning: String) {
      self.status = status
      self.code = code
      self.meaning = meaning
    }
  }

  static let all: [Meaning] = [
    Meaning(
      400, "invalid_request", "Some fields are not valid; errors names each one and says what is allowed."),
    Meaning(400, "malformed_json", "The body is not JSON."),
    Meaning(400, "malformed_multipart", "The body is not a well-formed multipart form."),
    Meaning(400, "malformed_request", "The request is not well-formed HTTP/1.1; the connection is closed."),
    Meaning(400, "unreadable_body", "The body is not a JSON object."),
    Meaning(400, "user_header_refused", "Perch-User works only with --auth off: send a bearer token."),
    Meaning(401, "bad_signature", "The webhook's signature is missing or does not match its body."),
    Meaning(401, "unauthorized", "The request needs a valid bearer token; `perch token` makes one."),
    Meaning(
      403, "host_not_allowed",
      "The Host is not loopback and not allowed: use 127.0.0.1 or localhost, or allow the name."),
    Meaning(
      403, "insufficient_scope", "The token is valid but lacks the scope that this operation needs."),
    Meaning(403, "not_joined", "You are invited and have not joined: join upstream to read the messages."),
    Meaning(403, "not_allowed", "You are a member but may not do this; reason says why."),
    Meaning(403, "origin_not_allowed", "The request comes from a web page of another origin."),
    Meaning(403, "user_unknown", "The chat server does not know this user."),
    Meaning(404, "channel_not_found", "There is no such channel, or you are not in it."),
    Meaning(404, "file_not_found", "There is no such file."),
    Meaning(404, "collection_not_found", "There is no such collection, or it was disposed of: open one."),
    Meaning(
      410, "cursor_expired", "The event log no longer reaches back to this cursor: read the collection again."
    ),
    Meaning(429, "too_many_collections", "You reached the limit of open collections: delete some."),
    Meaning(404, "gap_not_found", "The gap does not exist any more: list the channel's gaps again."),
    Meaning(404, "message_not_found", "There is no such message in this channel, or it is not yours to see."),
    Meaning(404, "no_demo", "Only `perch demo` has this page."),
    Meaning(404, "problem_not_found", "No problem has this code."),
    Meaning(
      404, "unsent_not_found", "You have no unsent message with this request id: it was sent or removed."),
    Meaning(404, "route_not_found", "No operation has this path: the contract lists all."),
    Meaning(
      405, "method_not_allowed", "The path does not support this method; Allow lists the methods it supports."
    ),
    Meaning(409, "file_missing", "The bytes of this message's file are gone: resend it with the file."),
    Meaning(409, "not_resendable", "Only a failed or canceled message can be sent again."),
    Meaning(
      409, "under_way",
      "The request to the chat server has started and cannot be canceled: read the message later."),
    Meaning(409, "unsent", "The message is not sent yet: wait for its message_id and use that."),
    Meaning(
      412, "precondition_failed", "The message or its channel changed since it was read: read it again."),
    Meaning(422, "idempotency_mismatch", "This request_id was used for something else: take another."),
    Meaning(
      422, "not_sent", "The message was not sent; its error says why: resend or remove it."),
    Meaning(
      422, "upstream_rejected",
      "The chat server refused the message; upstream has its error code: resend or remove it."),
    Meaning(
      429, "outbox_full", "You reached the limit of unsent messages: remove failed ones, or wait."),
    Meaning(409, "shared", "Other users of this service are in the channel: only an operator may clear it."),
    Meaning(
      409, "unsent_messages", "Unsent messages would be lost: send or remove them, or set force=true."),
    Meaning(411, "length_required", "Send Content-Length, or a chunked body."),
    Meaning(413, "content_too_large", "The body is larger than this operation takes."),
    Meaning(414, "target_too_long", "The request's target is too long."),
    Meaning(415, "unsupported_media_type", "The body is of a type that this operation does not take."),
    Meaning(416, "range_not_satisfiable", "The file does not have the requested bytes."),
    Meaning(417, "expectation_failed", "The service supports only Expect: 100-continue."),
    Meaning(431, "header_fields_too_large", "The headers are too many or too long."),
    Meaning(500, "internal_error", "The service failed: report the request id to its operator."),
    Meaning(502, "upstream_rejected", "The chat server refused the request; upstream has its error code."),
    Meaning(503, "busy", "The service has too many requests at once: retry after Retry-After seconds."),
    Meaning(
      503, "not_synced",
      "The service has not fetched all your channels yet and cannot reach the chat server: retry later."),
    Meaning(503, "starting", "The service is starting: retry when /readyz answers 200."),
    Meaning(503, "stopping", "The service is shutting down: retry."),
    Meaning(
      503, "storage_unavailable",
      "The service cannot read or write its disk; detail says whether anything was stored."),
    Meaning(503, "upstream_failed", "The chat server gave no usable answer: retry."),
    Meaning(
      503, "upstream_unreachable",
      "Nothing is cached yet and the service cannot reach the chat server: retry later."),
    Meaning(505, "version_not_supported", "Use HTTP/1.1."),
    Meaning(507, "upload_not_stored", "The upload could not be written to disk."),
  ]

  /// The meanings of a code, one for each status it is answered with. An unknown code has none.
  static func meanings(of code: String) -> [Meaning] { all.filter { $0.code == code } }
}
