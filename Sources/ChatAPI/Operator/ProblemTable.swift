import MicroHTTP

/// What each problem code means and what a client does next: the page behind a problem's `type`.
///
/// Every code that the service answers with is in this table; a test reads the sources for them.
enum ProblemTable {
  /// A code, as it is answered with one status.
  struct Meaning: Sendable {
    let status: Int
    let code: String
    /// Why the service answered so, for a reader of the page.
    let cause: String
    /// The client's next step, for a reader of the page.
    let action: String
    /// The members that only this problem has, as JSON (see `Problem.members`).
    let members: String

    init(_ status: Int, _ code: String, _ cause: String, _ action: String, members: String = "") {
      self.status = status
      self.code = code
      self.cause = cause
      self.action = action
      self.members = members
    }

    /// An answer with this code.
    var example: String {
      let problem = Problem(status, code, detail: action, members: members)
      let body = problem.body(requestID: "9f3b5c0e7a2d4168")
      return HTMLText.lines(of: String(decoding: body.bytes, as: UTF8.self))
    }
  }

  static let all: [Meaning] = [
    Meaning(
      400, "invalid_request",
      "A field, parameter or header has a value that is not allowed, or is not known at all.",
      "Correct what `errors` names and send the request again.",
      members: #""errors":[{"field":"limit","detail":"must be 1 to 200"}]"#),
    Meaning(
      400, "malformed_json",
      "The body is not JSON.",
      "Send one JSON object, encoded as UTF-8."),
    Meaning(
      400, "malformed_multipart",
      "The body is not a well-formed form: a part is cut, has no name, or is too long.",
      "Have an HTTP library write the form, with one part `file` and one part `params`."),
    Meaning(
      400, "malformed_request",
      "The request is not HTTP/1.1, so the connection is closed: its next request cannot be found.",
      "Have an HTTP library write the request."),
    Meaning(
      400, "unreadable_body",
      "The webhook's body is signed, but is no JSON object.",
      "Look at what the chat server is set to send."),
    Meaning(
      400, "user_header_refused",
      "The header `Perch-User` names a user only where the service runs with `--auth off`.",
      "Send a bearer token instead."),
    Meaning(
      401, "bad_signature",
      "The webhook's signature is missing, or was made with another secret or of another body.",
      "Give the service the chat server's secret with `--webhook-secret`."),
    Meaning(
      401, "unauthorized",
      "The request has no bearer token or ticket, or one that ended or was signed with another secret.",
      "Get a new token (`perch token` makes one) and send the request again."),
    Meaning(
      403, "host_not_allowed",
      "The request's `Host` is not loopback and not allowed: a web page may have chosen the name.",
      "Ask for 127.0.0.1 or localhost, or start the service with the name allowed."),
    Meaning(
      403, "insufficient_scope",
      "The token is valid, but its scope does not include this operation.",
      "Use a token with the scope that `WWW-Authenticate` names."),
    Meaning(
      403, "not_joined",
      "You are invited to the channel and have not joined it. Its messages are for those who joined.",
      "Join the channel at the chat server, then ask again."),
    Meaning(
      403, "not_allowed",
      "You are a member of the channel, but may not do this in it.",
      "Look at `reason`. The same request is refused until that changes.",
      members: #""reason":"muted""#),
    Meaning(
      403, "origin_not_allowed",
      "The request comes from a web page of another origin.",
      "Start the service with the page's origin in `--cors-origins`."),
    Meaning(
      403, "user_unknown",
      "The chat server says that it has no such user, or none any more.",
      "Create the user at the chat server. The next request asks again, once a minute."),
    Meaning(
      404, "channel_not_found",
      "There is no such channel, or you are not in it. The service does not say which.",
      "Forget the channel. If you join it, it is found."),
    Meaning(
      404, "collection_not_found",
      "There is no such view, it is another user's, or it was disposed of.",
      "Open a new view."),
    Meaning(
      404, "file_not_found",
      "The message has no file, or its bytes are no longer here.",
      "Read the message: its `file.url` says where the file is."),
    Meaning(
      404, "gap_not_found",
      "The gap does not exist any more, because it was filled or joined another one.",
      "List the channel's gaps again."),
    Meaning(
      404, "message_not_found",
      "There is no such message in this channel, or it is not yours to see. "
        + "Of a repeated send: its message was deleted or removed since.",
      "Forget the message."),
    Meaning(
      404, "no_demo",
      "Only `perch demo` has this page.",
      "Start `perch demo`."),
    Meaning(
      404, "problem_not_found",
      "No problem has this code.",
      "Look at the list of problems in the reference."),
    Meaning(
      404, "route_not_found",
      "No operation has this path.",
      "Look at the paths in the reference."),
    Meaning(
      404, "unsent_not_found",
      "You have nothing unsent under this request id: it was sent, removed, or never accepted.",
      "Read the message by `request_id:` and the id, which also finds sent ones."),
    Meaning(
      405, "method_not_allowed",
      "The path exists, but not with this method.",
      "Use one of the methods that `Allow` lists."),
    Meaning(
      409, "file_missing",
      "The bytes of this unsent message's file are gone from the disk.",
      "Send the message again with its file."),
    Meaning(
      409, "not_resendable",
      "Only a message that failed, or was canceled before it arrived, is sent again. This one is neither.",
      "Read the message: its `sending_status` says what became of it."),
    Meaning(
      409, "shared",
      "Other users of this service are in the channel, so its messages are not yours alone to clear.",
      "Ask an operator to clear it."),
    Meaning(
      409, "under_way",
      "The request to the chat server has begun and cannot be taken back any more.",
      "Read the message in a moment, then edit or delete it."),
    Meaning(
      409, "unsent",
      "The message is not sent yet, so the chat server has no id for it.",
      "Name it by `request_id:` and its id, or wait until it is sent."),
    Meaning(
      409, "unsent_messages",
      "Messages that are not sent yet would be lost.",
      "Send or remove them first, or repeat the request with `force=true`.",
      members: #""unsent":3"#),
    Meaning(
      410, "cursor_expired",
      "The event log no longer has the changes since this cursor, or the cursor is another service's.",
      "Read the view or the list again, and go on from its cursor."),
    Meaning(
      411, "length_required",
      "The body has neither a length nor chunks.",
      "Send `Content-Length`, or a chunked body."),
    Meaning(
      412, "precondition_failed",
      "The message or its channel changed since you read it.",
      "Read it again and decide anew."),
    Meaning(
      413, "content_too_large",
      "The body is larger than this operation takes.",
      "Send less: `detail` names the limit."),
    Meaning(
      414, "target_too_long",
      "The path and query together are too long.",
      "Use fewer or shorter parameters."),
    Meaning(
      415, "unsupported_media_type",
      "The body is of a type that this operation does not take.",
      "Send `application/json`, or a form where the operation takes files."),
    Meaning(
      416, "range_not_satisfiable",
      "The file has none of the bytes that `Range` asks for.",
      "Ask for a range within the length that `Content-Range` tells."),
    Meaning(
      417, "expectation_failed",
      "`Expect` asks for something other than `100-continue`.",
      "Leave the header out."),
    Meaning(
      422, "idempotency_mismatch",
      "This `request_id` was already used for a request with other content.",
      "Use a new `request_id` for new content.",
      members: #""request_id":"note-17""#),
    Meaning(
      422, "not_sent",
      "The message ended unsent; its `error` says why.",
      "Send it again with `resend`, or remove it.",
      members: #""request_id":"note-17""#),
    Meaning(
      422, "upstream_rejected",
      "The chat server refused the message.",
      "Look at the chat server's code in `upstream`, then change the message, or remove it.",
      members: #""upstream":{"code":900041}"#),
    Meaning(
      429, "outbox_full",
      "You have as many unsent messages and changes as one user may have.",
      "Remove failed ones, or wait until the waiting ones are sent."),
    Meaning(
      429, "too_many_collections",
      "You have as many views open as one user may have.",
      "Dispose of views that nobody looks at."),
    Meaning(
      431, "header_fields_too_large",
      "The headers are too many or too long.",
      "Send fewer: cookies count twice."),
    Meaning(
      500, "internal_error",
      "The service failed. Your request is not the cause.",
      "Give the operator the `x_request_id`; the log names it."),
    Meaning(
      502, "upstream_rejected",
      "The chat server refused the question that the service had to ask.",
      "Look at the chat server's code in `upstream`. The same request is refused again.",
      members: #""upstream":{"code":400108}"#),
    Meaning(
      503, "busy",
      "The service has as many requests under way as it takes.",
      "Send the request again after `Retry-After` seconds."),
    Meaning(
      503, "not_synced",
      "The service does not know which channels you are in: it has not listed them yet, the cache is being "
        + "cleared, or there is news and your changes are not fetched yet.",
      "Ask again after `Retry-After` seconds."),
    Meaning(
      503, "starting",
      "The service is starting.",
      "Ask again when `/readyz` answers 200."),
    Meaning(
      503, "stopping",
      "The service is stopping, perhaps to be started again.",
      "Send the request again in a moment. Nothing that was accepted is lost."),
    Meaning(
      503, "storage_unavailable",
      "The service cannot read or write its disk at the moment.",
      "Send the request again after `Retry-After` seconds. `detail` says whether anything was stored."),
    Meaning(
      503, "upstream_failed",
      "The chat server answered, but not in a way that can be used.",
      "Send the request again after `Retry-After` seconds."),
    Meaning(
      503, "upstream_unreachable",
      "Nothing that answers this is cached, and the chat server cannot be reached.",
      "Ask again after `Retry-After` seconds."),
    Meaning(
      504, "not_cached",
      "The request has `Cache-Control: only-if-cached`, and the message is not cached.",
      "Ask without that header: then the chat server is asked."),
    Meaning(
      505, "version_not_supported",
      "The request is not HTTP/1.1 or HTTP/1.0.",
      "Have an HTTP library write the request."),
    Meaning(
      507, "upload_not_stored",
      "The file could not be written to the disk: it is full, or the room for uploads is.",
      "Send the form again later, with the same `request_id`.",
      members: #""request_id":"photo-1""#),
  ]

  /// The meanings of a code, one for each status it is answered with. An unknown code has none.
  static func meanings(of code: String) -> [Meaning] { all.filter { $0.code == code } }
}
