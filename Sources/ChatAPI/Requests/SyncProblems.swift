import ChatCache
import ChatModel
import MicroHTTP
import Platform

extension Problem {
  /// The problem for the error of a sync request. Nothing else turns these errors into problems.
  init(_ error: SyncError) {
    switch error {
    case .unreachable(let loss, let retryAfter):
      self.init(
        503, "upstream_unreachable",
        detail: "Nothing that answers this is cached, and the upstream cannot be asked (\(loss.rawValue)): "
          + "try again later.",
        headers: [Problem.retryAfter(retryAfter)])
    case .userUnknown:
      self.init(403, "user_unknown", detail: "The upstream knows no such user, or none any more.")
    case .notSynced(let retryAfter):
      self.init(
        503, "not_synced",
        detail: "Not all of your channels are known yet: the chat server has not told them. Try again later.",
        headers: [Problem.retryAfter(retryAfter)])
    case .rejected(let code, let message):
      self.init(
        502, "upstream_rejected", detail: "The upstream refused the question: \(message)",
        members: "\"upstream\":{\"code\":\(code)}")
    case .busy(let retryAfter):
      self.init(
        503, "busy", detail: "There are too many requests at once: try again later.",
        headers: [Problem.retryAfter(retryAfter)])
    case .failed(let reason):
      self.init(
        503, "upstream_failed", detail: "The upstream gave no usable answer (\(reason)): try again.",
        headers: [("Retry-After", "1")])
    case .storage:
      self.init(
        503, "storage_unavailable", detail: "The cache cannot be written at the moment: try again later.",
        headers: [("Retry-After", "5")])
    case .unreadable(let field?):
      self = .invalid(field, "is missing or no text, such as group_channel:message_send")
    case .unreadable(nil):
      self.init(
        400, "unreadable_body",
        detail: "The body is signed but is no JSON object: give one with `category`.")
    case .stopping:
      self.init(
        503, "stopping", detail: "The service is stopping: try again.", headers: [("Retry-After", "1")])
    }
  }

  private static func retryAfter(_ milliseconds: Int64) -> (name: String, value: String) {
    ("Retry-After", seconds(milliseconds))
  }

  /// A wait in milliseconds as the value of `Retry-After`: whole seconds, at least 1.
  static func seconds(_ milliseconds: Int64) -> String { String(max(1, (milliseconds + 999) / 1000)) }

  /// The problem for a failure of the cache (B60).
  init(_ error: CacheError) {
    switch error {
    case .stopping: self = Problem(SyncError.stopping)
    case .rightsUnknown: self = .rightsUnknown
    case .outcomeUnknown: self = .outcomeUnknown("Check that, or send the request again.")
    case let error where error.isTransient:
      self.init(
        503, "storage_unavailable",
        detail: "The disk cannot be read or written at the moment, and nothing was stored: try again later.",
        headers: [("Retry-After", "5")])
    default:
      Log.line(.error, "cache_failed", ["error": .text("\(error)")])
      self = Problem.internalError
    }
  }

  /// Something was stored in a channel, and whether the caller is still in it is not known (B1).
  static let rightsUnknown = Problem(
    503, "not_synced",
    detail: "There is news, and the chat server has not yet said which channels you are still in: try again "
      + "later.",
    headers: [("Retry-After", "1")])

  /// The problem of a message that is not cached after the upstream was asked: only the upstream can say that
  /// it does not exist.
  static func ofMissingMessage(_ fetched: SyncOutcome) -> Problem {
    switch fetched {
    case .stored, .failed(.rejected): Problem.messageNotFound
    case .failed(let error): Problem(error)
    case .late: Problem(SyncError.failed(reason: "the chat server did not answer in time"))
    }
  }

  /// The request forbids to ask the upstream for what is not cached (RFC 9111).
  static let notCached = Problem(
    504, "not_cached",
    detail: "The message is not cached: without `Cache-Control: only-if-cached` the chat server is asked.")

  /// Messages were removed from the cache while the request looked for one (B58).
  static let removedMeanwhile = Problem(
    503, "not_synced", detail: "Messages of the channel were removed from the cache meanwhile: ask again.",
    headers: [("Retry-After", "1")])

  /// Whether this is `rightsUnknown`.
  var isOfUnknownRights: Bool { detail == Problem.rightsUnknown.detail }

  private static var internalError: Problem {
    Problem(500, "internal_error", detail: "This is the server's fault; give the request id to its operator.")
  }
}
