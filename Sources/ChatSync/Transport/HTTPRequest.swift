import Platform

/// One request on its way out. Its headers may hold secrets, so it is never printed or logged.
package struct HTTPRequest: Sendable {
  /// The methods in use upstream.
  package enum Method: String, Sendable { case get = "GET", post = "POST", put = "PUT", delete = "DELETE" }

  /// What is sent along.
  package enum Body: Sendable {
    case none
    /// JSON text.
    case json([UInt8])
    /// A multipart form; files are read from disk while they are sent.
    case form([Part])
  }

  /// One part of a form.
  package struct Part: Sendable {
    /// Where a part's bytes are.
    package enum Content: Sendable {
      case bytes([UInt8])
      case file(path: String, name: String, mime: String)
    }
    /// The form field.
    package let name: String
    /// Its bytes.
    package let content: Content

    /// A part called `name`.
    package init(_ name: String, _ content: Content) {
      self.name = name
      self.content = content
    }
  }

  /// What is done.
  package var method: Method
  /// The whole url, percent-encoded.
  package var url: String
  /// Lines as they go over the wire, `Name: value`.
  package var headers: [String]
  /// The body.
  package var body: Body
  /// Who waits for it.
  package var importance: Importance
  /// What kind of call it is: a pause that the server asks for is this kind's alone.
  package var endpoint = ""
  /// How long sending and receiving may take altogether, or nil for the client's usual time.
  package var totalMilliseconds: Int?
  /// How long nothing may move before the request is given up; nil: that is not looked at.
  package var stallMilliseconds: Int?
  /// Told how many bytes of how many were sent, on the client's thread: it must be quick.
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

/// Who waits for a request; lower goes first (B30, B35).
package enum Importance: Int, Sendable, CaseIterable, Comparable {
  /// A client's own request waits.
  case foreground
  /// A view is open, or somebody's unsent messages are behind it.
  case open
  /// A file of somebody's unsent message: it takes at most half of the slots.
  case upload
  /// Nobody waits.
  case background

  /// The more important of two.
  package static func < (a: Importance, b: Importance) -> Bool { a.rawValue < b.rawValue }
}

/// An answer with its whole body.
package final class HTTPResponse: Sendable {
  /// The status code.
  package let status: Int
  /// The body's type, and the headers that tell when to ask again.
  package let headers: Headers
  /// The body.
  package let body: ByteBuffer

  /// The headers of an answer that the client reads.
  package struct Headers: Sendable, Equatable {
    /// The body's type.
    package var contentType: String?
    /// `Retry-After` as it came: seconds or a date.
    package var retryAfter: String?
    /// `X-RateLimit-Remaining`, `-Reset` and `-RetryAfter`.
    package var rateRemaining: String?
    /// When the limit starts anew: seconds, or a moment.
    package var rateReset: String?
    /// Seconds until the next request is welcome.
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
    /// No connection: name, route, refusal, TLS.
    case connect
    /// Whoever answered showed a certificate that is not trusted, or what to trust cannot be read.
    case untrusted
    /// A connection, but no first byte in time.
    case silent
    /// More time than allowed altogether.
    case timeout
    /// The connection ended early or spoke no HTTP.
    case broken
    /// More bytes than allowed.
    case tooLarge = "too_large"
    /// Refused here: too many wait already.
    case crowded
    /// Refused here: the upstream asked for a pause of this kind of call.
    case paused
    /// Given up from this side.
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
  /// Of a pause: the ms until its end.
  package var retryAfter: Int64?

  /// For the log.
  package var description: String { "\(kind.rawValue): \(reason)" }
}
