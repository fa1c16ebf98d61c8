/// An error a client can act on (RFC 9457); thrown by handlers and answered as `application/problem+json`.
package struct Problem: Error, Sendable {
  /// One field at fault.
  package struct FieldError: Sendable, Equatable {
    /// The parameter or the path of the JSON member.
    package let field: String
    /// What is wrong with it.
    package let detail: String
    /// A field and its fault.
    package init(_ field: String, _ detail: String) {
      self.field = field
      self.detail = detail
    }
  }

  /// The HTTP status.
  package var status: Int
  /// The stable code in snake case; the member `type` is `/problems/` and the code.
  package var code: String
  /// The code in words.
  package var title: String
  /// Tells the client what to do next.
  package var detail: String
  /// The fields at fault.
  package var errors: [FieldError]
  /// Headers of the answer, such as Retry-After.
  package var headers: [(name: String, value: String)]
  /// Further JSON members, ready to be spliced: `"upstream":{…}`.
  package var members: String
  /// Whether the connection is closed after the answer.
  var closes = false

  /// A problem; the title defaults to the code in words.
  package init(
    _ status: Int, _ code: String, title: String? = nil, detail: String, errors: [FieldError] = [],
    headers: [(name: String, value: String)] = [], members: String = ""
  ) {
    self.status = status
    self.code = code
    self.title = title ?? Problem.words(of: code)
    self.detail = detail
    self.errors = errors
    self.headers = headers
    self.members = members
  }

  private static func words(of code: String) -> String {
    let words = code.split(separator: "_").joined(separator: " ")
    return words.prefix(1).uppercased() + words.dropFirst()
  }

  /// The request's form is broken: 400, and the connection is closed because its framing cannot be trusted.
  static func malformed(_ detail: String) -> Problem {
    var problem = Problem(400, "malformed_request", detail: detail)
    problem.closes = true
    return problem
  }

  /// The request's head is too large: 431, and the connection is closed.
  static func tooMuchHead(_ detail: String) -> Problem {
    var problem = Problem(431, "header_fields_too_large", detail: detail)
    problem.closes = true
    return problem
  }
}

extension Problem {
  static let unexpected = Problem(
    500, "internal_error", detail: "this is the server's fault; give the request id to its operator")

  static func refused(_ status: Int) -> Problem {
    switch status {
    case 413: Problem(413, "content_too_large", detail: "send a smaller body")
    case 414: Problem(414, "target_too_long", detail: "send a shorter request target")
    case 431: Problem(431, "header_fields_too_large", detail: "send fewer or shorter headers")
    case 505: Problem(505, "version_not_supported", detail: "speak HTTP/1.1")
    case 500...: Problem(status, "internal_error", detail: "the server is short of memory; try again later")
    default: Problem(status, "malformed_request", detail: "the request is not well-formed HTTP/1.1")
    }
  }

  static func tooLarge(limit: Int) -> Problem {
    Problem(413, "content_too_large", detail: "send at most \(limit) bytes")
  }

  static func fieldTooLong(_ name: String, limit: Int) -> Problem {
    Problem(
      400, "invalid_request", detail: "a field of the form is too long",
      errors: [FieldError(name, "Give at most \(limit) bytes.")])
  }

  static func multipart(_ detail: String) -> Problem {
    Problem(400, "malformed_multipart", detail: detail)
  }
}
