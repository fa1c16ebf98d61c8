import ChatCache
import ChatModel
import JSON
import MicroHTTP

extension Problem {
  /// The problem for a request to send or change something that is not accepted. Nothing was stored.
  init(_ denial: SendingDenial) {
    switch denial {
    case .channelNotFound: self = .channelNotFound
    case .notJoined: self = .notJoined
    case .notAllowed(let reason):
      self.init(
        403, "not_allowed", detail: Problem.detail(of: reason), members: "\"reason\":\"\(reason.rawValue)\"")
    case .messageNotFound: self = .messageNotFound
    case .unsent:
      self.init(
        409, "unsent",
        detail: "The message is not sent yet: wait until it has a message_id, then refer to that.")
    case .tooLong(let limit):
      self = .invalid(
        "message", "Give at most \(limit) characters, as the channel's max_message_length says.")
    case .full(let limit):
      self.init(
        429, "outbox_full",
        detail:
          "You have \(limit) unsent messages and changes: remove failed ones, or wait until some are sent.",
        headers: [("Retry-After", "10")])
    }
  }

  private static func detail(of reason: SendingDenial.Reason) -> String {
    switch reason {
    case .muted: "You are muted in this channel: ask one of its operators."
    case .frozen: "The channel is frozen: only its operators may send."
    case .broadcast: "The channel is a broadcast channel: only its operators may send."
    case .notSender: "Only its sender may edit a message."
    case .notOperator: "Only its sender and the channel's operators may delete a message."
    case .adminOnly: "Admin messages need a token with the scope admin."
    }
  }

  /// The request id was used for something else (B37).
  static var idempotencyMismatch: Problem {
    Problem(
      422, "idempotency_mismatch",
      detail:
        "This request_id was used for something else: repeat that as it was, or take another request_id.")
  }

  /// The request was done, and its message was deleted, removed or cleared since (B37).
  static var messageGone: Problem {
    Problem(
      404, "message_not_found",
      detail: "This was done, and its message was deleted, removed or cleared since: do not repeat it.")
  }

  /// The message was sent, and whether the caller is still in its channel is not known (B1).
  static let sentNotShown = Problem(
    503, "not_synced",
    detail: "This was done. It is shown when the chat server has said which channels you are still in: "
      + "repeat it later, with the same request_id.",
    headers: [("Retry-After", "1")])

  /// The message is neither failed nor canceled, or it arrived before it was canceled.
  static var notResendable: Problem {
    Problem(
      409, "not_resendable",
      detail: "Only a message that failed, or was canceled before it arrived, can be sent again: see its "
        + "sending_status, or send it as a new message.")
  }

  /// The user has no unsent row with that request id.
  static var unsentNotFound: Problem {
    Problem(
      404, "unsent_not_found",
      detail: "You have no unsent message with this request id: it was sent or removed."
    )
  }

  /// A request that ended without success: refused by the upstream, or not sent for another reason.
  /// `message`: the message as it stands, where there is one.
  static func notSent(code: String, message: [UInt8]?) -> Problem {
    var members = message.map { "\"message\":" + String(decoding: $0, as: UTF8.self) } ?? ""
    guard let number = Int64(code) else {
      return Problem(
        422, "not_sent",
        detail: "The request was not sent (\(code)): resend or remove a failed message.", members: members)
    }
    members = "\"upstream\":{\"code\":\(number)}" + (members.isEmpty ? "" : "," + members)
    return Problem(
      422, "upstream_rejected",
      detail: "The chat server refused the request (\(number)): resend or remove a failed message.",
      members: members)
  }

  /// The same problem with the request's id. If nobody knows whether the request was stored, the problem
  /// also advises to repeat it with this id.
  func naming(_ id: RequestID) -> Problem {
    let member = "\"request_id\":\"\(id.text)\""
    guard !members.hasSuffix(member) else { return self }
    var named = self
    if code == "storage_unavailable" {
      named.detail += " Send it with this request_id: then it is done once, however often it is sent."
    }
    named.members = members.isEmpty ? member : members + "," + member
    return named
  }
}
