import Platform

/// One request on its way out. Its headers may hold secrets, so it is never printed or logged.
package struct HTTPRequest: Sendable {
  /// The methods in use upstream.
  package enum Method: String, Sendable { case get = "GET", post = "POST", put = "PUT", delete = "DELETE" }

  /// The request's body.
  package enum Body: Sendable {
    case none
    /// JSON text.
    case json([UInt8])
    /// A multipart form; files are read from disk while they are sent.
    case form([Part])
  }

  /// One part of a form.
  package struct Part: Sendable {
    /// The source of a part's bytes.
    package enum Content: Sendable {
      case bytes([UInt8])
      case file(path: String, name: String, mime: String)
    }
    /// The name of the form field.
    package let name: String
    /// The part's content.
    package let content: Content

    /// A part for the form field `name`.
    package init(_ name: String, _ content: Content) {
      self.name = name
      self.content = content
    }
  }

  /// The HTTP method.
  package var method: Method
  /// The whole url, percent-encoded.
  package var url: String
  /// The header lines as they are sent, `Name: value`.
  package var headers: [String]
  /// The body.
  package var body: Body
  /// The importance, which decides the request's turn.
  package var importance: Importance
  /// The kind of call. A pause that the server asks for holds for this kind alone.
  package var endpoint = ""
  /// How long sending and receiving may take altogether, or nil for the client's usual time.
  package var totalMilliseconds: Int?
  /// How long a transfer may make no progress before the request is given up; nil: for ever.
  package var stallMilliseconds: Int?
  /// Called on the client's thread with the number of bytes sent and of all bytes; it must be quick.
  package var progress: (@Sendable (_ sent: Int64, _ total: Int64) -> Void)?

  /// A request for `url`.
  package init(
    _ method: Method, _ url: String, headers: [String] = [], body: Body = .none,
    importance: Importance = .background, totalMilliseconds: Int? = nil
  ) {
    self.method = method
    self.url = url
    self.headers = headers
    self.body = body
    self.importance = importance
    self.totalMilliseconds = totalMilliseconds
  }
}

/// How important a request is; the lowest number goes first (B30, B35).
package enum Importance: Int, Sendable, CaseIterable, Comparable {
  /// A client's own request waits for it.
  case foreground
  /// A list of a user's channels, for which a client waits. Like background requests these leave one slot
  /// free.
  case listing
  /// An unsent message.
  case send
  /// For an open view or a user.
  case open
  /// The file of an unsent message. Uploads have at most half of the slots.
  case upload
  /// No client waits for it.
  case background

  /// The more important of two.
  package static func < (a: Importance, b: Importance) -> Bool { a.rawValue < b.rawValue }
}

/// The upstream's answer, with its whole body.
package final class HTTPResponse: Sendable {
  /// The status code.
  package let status: Int
  /// The headers that the client reads.
  package let headers: Headers
  /// The body.
  package let body: ByteBuffer

  /// The body's media type, and the headers that tell when to ask again.
  package struct Headers: Sendable, Equatable {
    /// The body's type.
    package var contentType: String?
    /// `Retry-After` as it came: seconds or a date.
    package var retryAfter: String?
    /// `X-RateLimit-Remaining`: the number of requests left.
    package var rateRemaining: String?
    /// `X-RateLimit-Reset`: when the limit starts again, as seconds from now or as a time.
    package var rateReset: String?
    /// `X-RateLimit-RetryAfter`: the seconds until the next request is allowed.
    package var rateRetryAfter: String?

    /// No headers.
    package init() {}
  }

  init(status: Int, headers: Headers, body: consuming ByteBuffer) {
    self.status = status
    self.headers = headers
    self.body = body
  }
}

/// Why there is no answer.
package struct TransportFailure: Error, Equatable, CustomStringConvertible {
  /// What went wrong.
  package enum Kind: String, Sendable {
    /// No connection could be made: the name, the route, a refusal or TLS failed.
    case connect
    /// The server showed a certificate that is not trusted, or the trusted certificates cannot be read.
    case untrusted
    /// There is a connection, but the answer's first byte did not come in time.
    case silent
    /// The answer did not end in time.
    case timeout
    /// The connection ended early or spoke no HTTP.
    case broken
    /// The answer has more bytes than allowed.
    case tooLarge = "too_large"
    /// The client refused the request, because too many wait already.
    case crowded
    /// The client refused the request, because the upstream asked for a pause of this kind of call.
    case paused
    /// The caller canceled the request.
    case canceled
    /// The client is closed.
    case closed
  }
  /// What went wrong.
  package let kind: Kind
  /// Whether bytes of the request may have reached the other side: then a write is uncertain (B39).
  package let mayHaveArrived: Bool
  /// The library's words; never a url, a header or a body.
  package let reason: String
  /// For `paused`: the ms until the pause ends.
  package var retryAfter: Int64?

  /// For the log.
  package var description: String { "\(kind.rawValue): \(reason)" }
}
