import MicroHTTP

/// An error as a chat server answers it: mostly HTTP 400 and a code in the body.
struct Refusal: Error, Equatable {
  let status: Int
  let code: Int
  let message: String

  init(_ code: Int, _ message: String, status: Int = 400) {
    self.status = status
    self.code = code
    self.message = message
  }

  static func missing(_ name: String) -> Refusal { Refusal(400105, "\"\(name)\" is required.") }
  static func unknown(_ name: String) -> Refusal { Refusal(400201, "\"\(name)\" not found.") }
  static func invalid(_ name: String) -> Refusal { Refusal(400111, "\"\(name)\" has an invalid value.") }
  static func range(_ name: String) -> Refusal { Refusal(400113, "\"\(name)\" is out of range.") }
  static func negative(_ name: String) -> Refusal { Refusal(400106, "\"\(name)\" must not be negative.") }
  static func tooLong(_ name: String) -> Refusal { Refusal(400110, "\"\(name)\" is too long.") }
  static func exists(_ name: String) -> Refusal { Refusal(400202, "\"\(name)\" exists already.") }
  static let notMember = Refusal(900020, "The user is not a member of the channel.")

  /// A problem of the HTTP layer itself, in the same envelope.
  init(_ problem: Problem) {
    switch problem.status {
    case 404: self.init(400930, "There is no such endpoint.")
    case 405: self.init(400930, "The endpoint has no such method.")
    case 413: self.init(400110, "The body is too long.")
    case 500...: self.init(500901, problem.detail, status: problem.status)
    default: self.init(400403, problem.detail, status: problem.status)
    }
  }

  var body: String {
    Value.object([
      "error": .bool(true), "code": .integer(Int64(code)),
      "message": .string(message),
    ]).text
  }
  var response: Response { Response.text(body, status: status, type: "application/json") }
}
