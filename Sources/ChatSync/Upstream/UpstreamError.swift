import ChatCache

/// Why a request to the upstream failed; the case decides what comes next (B35, B40).
package enum UpstreamError: Error, Equatable, CustomStringConvertible {
  /// The upstream understood the request and refused it: repeating it changes nothing.
  case rejection(code: Int, message: String)
  /// Calls of this kind must wait for that many ms.
  case rateLimited(milliseconds: Int64)
  /// The upstream refuses Perch's key: a fault of the link, not of the request.
  case unauthorized
  /// The server's certificate is not trusted: nothing was sent.
  case untrusted(reason: String)
  /// No answer. `mayHaveArrived` makes a write uncertain (B39).
  case unreachable(reason: String, mayHaveArrived: Bool)
  /// The server, or a proxy in front of it, failed: 5xx. A write is uncertain then. `retryAfter`: the ms that
  /// the answer asks to wait.
  case unusable(reason: String, retryAfter: Int64? = nil)
  /// An answer that cannot be decoded: HTML, cut text, a wrong type. It concerns only the requested item and
  /// is no failure of the link (B35). A write is uncertain then.
  case unreadable(reason: String)
  /// Perch gave the request up. A write is uncertain then.
  case canceled

  /// Whether the error concerns only the requested item, and not the link or other requests.
  package var concernsOneItem: Bool {
    switch self {
    case .rejection, .unreadable: true
    default: false
    }
  }

  /// Whether the upstream has no such user, channel or message.
  package var isNotFound: Bool {
    if case .rejection(code: 400201, _) = self { return true }
    return false
  }

  /// Whether the upstream says that the user is gone, deactivated or revoked (B5).
  package var deniesUser: Bool {
    if case .rejection(let code, _) = self { return [400201, 400300, 400301, 400302, 400310].contains(code) }
    return false
  }

  /// The beginning of the reason of `unreadable` for a 4xx without an error object.
  static let bareRefusal = "status 4"

  /// Whether the upstream refused the call, with or without an error object. It may not offer this kind of
  /// call, while others succeed with the same key (B32).
  package var isRefusal: Bool {
    switch self {
    case .rejection, .unauthorized: true
    case .unreadable(let reason): reason.hasPrefix(UpstreamError.bareRefusal)
    default: false
    }
  }

  /// Of an upload: whether the server refuses the file without an error object. Some servers refuse a file
  /// that is too large with a bare 413.
  package var refusesFile: Bool {
    if case .unreadable(let reason) = self { return reason.hasPrefix(UpstreamError.bareRefusal) }
    return false
  }

  /// Whether the upstream does not take a word in the request's query.
  package var deniesWord: Bool {
    if case .rejection(code: 400111, _) = self { return true }
    return false
  }

  /// Whether the upstream says that a parameter is missing or wrong: then it offers the call.
  package var asksForMore: Bool {
    if case .rejection(let code, _) = self { return (400100...400105).contains(code) || code == 400403 }
    return false
  }

  /// Whether the upstream does not offer the call to Perch's key (B32).
  package var deniesCapability: Bool {
    if case .rejection(let code, _) = self { return [400108, 400930, 403].contains(code) }
    return false
  }

  /// Whether the upstream does not take a changelog's token any more: refused, expired or out of range (B31).
  package var deniesToken: Bool {
    if case .rejection(let code, _) = self { return [400109, 400111, 400113, 400201].contains(code) }
    return false
  }

  /// Whether the answer could not be decoded (B35).
  package var isUnreadable: Bool {
    if case .unreadable = self { return true }
    return false
  }

  /// Whether the same read is worth repeating later.
  package var isTransient: Bool {
    switch self {
    case .rejection, .canceled: false
    case .rateLimited, .unauthorized, .untrusted, .unreachable, .unusable, .unreadable: true
    }
  }

  /// The wait that the upstream asks for (ms); nil where it asks for none.
  package var retryAfter: Int64? {
    switch self {
    case .rateLimited(let milliseconds): milliseconds
    case .unusable(_, let milliseconds): milliseconds
    default: nil
    }
  }

  /// The contract's word for the error, in the event that tells a view that its first request failed (B16).
  package var word: String {
    switch self {
    case .rejection: "upstream_rejected"
    case .rateLimited: "upstream_busy"
    case .unauthorized: LinkLoss.auth.rawValue
    case .untrusted: LinkLoss.untrusted.rawValue
    case .unreachable(let reason, _): LinkLoss(rawValue: reason)?.rawValue ?? LinkLoss.unreachable.rawValue
    case .unusable, .unreadable: "upstream_unusable"
    case .canceled: "canceled"
    }
  }

  /// For the log.
  package var description: String {
    switch self {
    case .rejection(let code, let message): "rejected with \(code): \(message)"
    case .rateLimited(let milliseconds): "rate limited for \(milliseconds) ms"
    case .unauthorized: "the key is refused"
    case .untrusted(let reason): "not trusted, \(reason)"
    case .unreachable(let reason, _): "unreachable, \(reason)"
    case .unusable(let reason, _): "an unusable answer, \(reason)"
    case .unreadable(let reason): "an answer that cannot be read, \(reason)"
    case .canceled: "canceled"
    }
  }
}

extension Error {
  /// Whether the upstream has no such user, channel or message.
  var isNotFoundUpstream: Bool { (self as? UpstreamError)?.isNotFound ?? false }

  /// Whether an answer of the upstream could not be decoded.
  var isUnreadableUpstream: Bool { (self as? UpstreamError)?.isUnreadable ?? false }
}
