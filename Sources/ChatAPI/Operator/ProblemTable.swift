/// What each problem's code means and what to do, for people who follow a problem's `type`.
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
      400, "invalid_request", "Fields of the request are at fault; errors names each with what to give."),
    Meaning(400, "malformed_json", "The body is not JSON."),
    Meaning(400, "malformed_multipart", "The body is not a well-formed multipart form."),
    Meaning(400, "malformed_request", "The request is not well-formed HTTP/1.1; the connection is closed."),
    Meaning(400, "unreadable_body", "The body is not the JSON object that is expected here."),
    Meaning(400, "user_header_refused", "Perch-User is heard with --auth off alone: send a bearer token."),
    Meaning(401, "bad_signature", "The webhook's signature is missing or is not of these bytes."),
    Meaning(401, "unauthorized", "A good bearer token is needed; `perch token` makes one."),
    Meaning(
      403, "host_not_allowed",
      "The Host is neither loopback nor allowed: ask 127.0.0.1 or localhost, or have the name allowed."),
    Meaning(
      403, "insufficient_scope", "The token is good and its scope does not reach: use one with the scope."),
    Meaning(403, "not_joined", "You are invited and have not joined: join upstream to read the messages."),
    Meaning(403, "not_allowed", "You are a member and may not do this; reason says why."),
    Meaning(403, "origin_not_allowed", "A page of another origin asks: it gets nothing here."),
    Meaning(403, "user_unknown", "The chat server knows no such user, or none any more."),
    Meaning(404, "channel_not_found", "There is no such channel, or you are not in it; both look the same."),
    Meaning(404, "file_not_found", "There is no such file."),
    Meaning(404, "collection_not_found", "There is no such collection, or it was disposed of: open one."),
    Meaning(410, "cursor_expired", "The log cannot tell what happened since: read the view again."),
    Meaning(429, "too_many_collections", "You have as many as one user may have: dispose of some."),
    Meaning(404, "gap_not_found", "There is no such gap any more: list the channel's gaps again."),
    Meaning(404, "message_not_found", "There is no such message in this channel, or it is not yours to see."),
    Meaning(404, "no_demo", "Only `perch demo` answers this."),
    Meaning(404, "problem_not_found", "No problem has this code."),
    Meaning(404, "unsent_not_found", "You have nothing unsent of this name: it was sent or removed."),
    Meaning(404, "route_not_found", "No operation has this path: the contract lists all."),
    Meaning(405, "method_not_allowed", "The path has other methods; Allow lists them."),
    Meaning(409, "not_resendable", "Only a failed or canceled message can be sent again."),
    Meaning(409, "under_way", "The change is being sent and cannot be stopped: look how it stands later."),
    Meaning(409, "unsent", "The message is not sent yet: wait for its message_id, then refer to that."),
    Meaning(
      412, "precondition_failed", "The message or its channel changed since it was read: read it again."),
    Meaning(422, "idempotency_mismatch", "This request_id was used for something else: take another."),
    Meaning(
      422, "not_sent", "It ended without being sent; the message's error says why: resend or remove it."),
    Meaning(
      422, "upstream_rejected", "The chat server refused it; upstream has its code: resend or remove it."),
    Meaning(
      429, "outbox_full", "You have as many unsent messages as one may have: remove failed ones, or wait."),
    Meaning(409, "shared", "Somebody else uses this channel here too: an operator may clear it."),
    Meaning(
      409, "unsent_messages", "What is not sent yet would be lost: send or remove it, or say force=true."),
    Meaning(411, "length_required", "Say the body's length, or send it in chunks."),
    Meaning(413, "content_too_large", "The body is larger than this operation takes."),
    Meaning(414, "target_too_long", "The request's target is too long."),
    Meaning(415, "unsupported_media_type", "The body is of a type that this operation does not take."),
    Meaning(416, "range_not_satisfiable", "The file does not have the asked bytes."),
    Meaning(417, "expectation_failed", "Only 100-continue can be expected."),
    Meaning(431, "header_fields_too_large", "The headers are too many or too long."),
    Meaning(500, "internal_error", "The server's fault: give the request id to its operator."),
    Meaning(502, "upstream_rejected", "The chat server refused the question; upstream has its code."),
    Meaning(503, "busy", "Too much is asked at once: try again after Retry-After."),
    Meaning(503, "not_synced", "Your channels are not all known yet and the chat server cannot be asked."),
    Meaning(503, "starting", "The service is starting: /readyz tells how far it is."),
    Meaning(503, "stopping", "The service is ending: try again."),
    Meaning(
      503, "storage_unavailable",
      "The disk cannot be read or written at the moment; detail says whether nothing was stored."),
    Meaning(503, "upstream_failed", "The chat server gave no usable answer: try again."),
    Meaning(503, "upstream_unreachable", "Nothing is cached yet and the chat server cannot be asked."),
    Meaning(505, "version_not_supported", "Speak HTTP/1.1."),
    Meaning(507, "upload_not_stored", "The upload could not be written to disk."),
  ]

  /// The meanings of a code, one for each status it is answered with. An unknown code has none.
  static func meanings(of code: String) -> [Meaning] { all.filter { $0.code == code } }
}
