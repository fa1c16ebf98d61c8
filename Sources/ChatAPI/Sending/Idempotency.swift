import CSodium
import ChatCache
import ChatModel
import JSON
import MicroHTTP
import Platform

/// The id of a request to send or change something (B37). The client gives it in the header `Idempotency-Key`
/// or in the body's `request_id`. If the client gives none, one is made here.
struct RequestName: Sendable {
  /// The request id.
  let id: RequestID
  /// Whether the client gave the id. Only such an id can have been used before.
  let isGiven: Bool

  /// Reads the header and compares it with the body's `request_id`, if there is one. Throws a problem that
  /// names the header if the header is no request id, or differs from the body's.
  init(_ request: Request, inBody: RequestID? = nil) throws {
    guard let header = request.headerText(RequestName.header) else {
      id = inBody ?? RequestName.made()
      isGiven = inBody != nil
      return
    }
    guard let text = RequestName.unquoted(header), let given = RequestID(text) else {
      throw Problem.invalid(RequestName.headerName, RequestName.hint)
    }
    if let inBody, inBody != given {
      throw Problem.invalid(RequestName.headerName, "It differs from request_id: give one of the two.")
    }
    id = given
    isGiven = true
  }

  /// The message of a problem whose request id is malformed.
  static let hint = "Give 1 to 80 of the characters A-Z, a-z, 0-9, dot, underscore, colon, hyphen."

  private static let header: StaticString = "Idempotency-Key"
  private static let headerName = "Idempotency-Key"

  /// The header's value, without the quotes of an RFC 8941 string; nil if the closing quote is missing.
  private static func unquoted(_ header: String) -> String? {
    var text = header[...]
    while text.first == " " || text.first == "\t" { text.removeFirst() }
    while text.last == " " || text.last == "\t" { text.removeLast() }
    guard text.first == "\"" else { return String(text) }
    guard text.count >= 2, text.last == "\"" else { return nil }
    // No unescaping: quotes and backslashes are not allowed in a request id.
    return String(text.dropFirst().dropLast())
  }

  /// A request id that nobody can guess: the time in ms, then 64 random bits. Ids of one moment are
  /// neighbours in the indexes of the database, so a commit of many sends changes few pages.
  private static func made() -> RequestID {
    var words = SystemRandomNumberGenerator()
    let time = String(max(0, Clock.system.wallMilliseconds()), radix: 36)
    let padding = String(repeating: "0", count: max(0, 9 - time.count))
    guard let id = RequestID("r" + padding + time + String(words.next(), radix: 36)) else {
      preconditionFailure("digits are allowed in a request id")
    }
    return id
  }
}

/// The SHA-256 of a request's operation, path and body. Two requests with one id must have equal hashes
/// (B37). Neither the order of the body's fields nor the position of the request id changes the hash.
enum ContentHash {
  /// The hash of one operation. `path`: the path's parameters. `content`: the body, its fields in
  /// one order.
  static func of(_ operation: String, _ path: [String], _ content: [UInt8]) -> [UInt8] {
    var json = JSONWriter(capacity: content.count + 256)
    json.beginArray()
    json.value(operation)
    for part in path { json.value(part) }
    content.withUnsafeBytes { json.splice($0) }
    json.endArray()
    let text = json.finish().array
    var hash = [UInt8](repeating: 0, count: Int(crypto_hash_sha256_BYTES))
    crypto_hash_sha256(&hash, text, UInt64(text.count))
    return hash
  }
}
