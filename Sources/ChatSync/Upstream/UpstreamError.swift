import ChatCache

/// Why the upstream did not do what was asked; each case knows what comes next (B35, B40).
package enum UpstreamError: Error, Equatable, CustomStringConvertible {
  /// It understood and refused: repeating changes nothing.
  case rejection(code: Int, message: String)
  /// It wants silence for that many ms.
  case rateLimited(milliseconds: Int64)
  /// It refuses Perch's own key: the link's fault, nobody's request.
  case unauthorized
  /// Whoever answers there shows a certificate that is not trusted: nothing was sent.
  case untrusted(reason: String)
  /// No answer. `mayHaveArrived` makes a write uncertain (B39).
  case unreachable(reason: String, mayHaveArrived: Bool)
  /// The server, or a proxy in front of it, failed: 5xx. A write is uncertain then. It may say when to come
  /// back (ms from now).
  case unusable(reason: String, retryAfter: Int64? = nil)
  /// An answer that cannot be decoded: HTML, cut text, a wrong type. It concerns what was asked for alone and
  /// is no failure of the link (B35). A write is uncertain then.
  case unreadable(reason: String)
  /// Given up from this side. A write is uncertain then.
  case canceled

  /// Whether it says something of what was asked for, and nothing of the link or of other requests.
  package var concernsOneItem: Bool {
    switch self {
    case .rejection, .unreadable: true
    default: false
    }
  }

  /// The upstream says that there is no such thing.
  package var isNotFound: Bool {
    if case .rejection(code: 400201, _) = self { return true }
    return false
  }

  /// The upstream says that the user asked about is gone, deactivated or revoked (B5).
  package var deniesUser: Bool {
    if case .rejection(let code, _) = self { return [400201, 400300, 400301, 400302, 400310].contains(code) }
    return false
  }

  /// A 4xx without an error object, as an answer that cannot be read gives it.
  static let bareRefusal = "status 4"

  /// Whether it refuses, in whatever words: of a kind of call that it may not offer to Perch's key, while
  /// others succeed with the same key (B32).
  package var isRefusal: Bool {
    switch self {
    case .rejection, .unauthorized: true
    case .unreadable(let reason): reason.hasPrefix(UpstreamError.bareRefusal)
    default: false
    }
  }

  /// Of an upload: whether the server refuses these bytes, in whatever words. Some refuse what is too large
  /// with a bare 413.
  package var refusesFile: Bool {
    if case .unreadable(let reason) = self { return reason.hasPrefix(UpstreamError.bareRefusal) }
    return false
  }

  /// Whether a word of the question is not one that the upstream takes.
  package var deniesWord: Bool {
    if case .rejection(code: 400111, _) = self { return true }
    return false
  }

  /// Whether the upstream takes such a call and lacks something in it: it offers the call.
  package var asksForMore: Bool {
    if case .rejection(let code, _) = self { return (400100...400105).contains(code) || code == 400403 }
    return false
  }

  /// The upstream does not offer this to Perch's key (B32).
  package var deniesCapability: Bool {
    if case .rejection(let code, _) = self { return [400108, 400930, 403].contains(code) }
    return false
  }

  /// A changelog's token is not known any more: refused as a value, expired, or out of range (B31).
  package var deniesToken: Bool {
    if case .rejection(let code, _) = self { return [400109, 400111, 400113, 400201].contains(code) }
    return false
  }

  /// Whether it concerns nothing but what was asked for (B35).
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

  /// The contract's word for it, as a view is told that its first answer could not be had (B16).
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
  /// Whether it is the upstream's word that there is no such thing.
  var isNotFoundUpstream: Bool { (self as? UpstreamError)?.isNotFound ?? false }

  /// Whether it is an answer of the upstream that cannot be decoded.
  var isUnreadableUpstream: Bool { (self as? UpstreamError)?.isUnreadable ?? false }
}
