import CSodium
import ChatModel
import JSON
import MicroHTTP

/// The id of a request to send or change something (B37). The client gives it in the header `Idempotency-Key`
/// or in the body's `request_id`. If the client gives none, one is made here.
struct RequestName: Sendable {
  /// The name.
  let id: RequestID
  /// Whether the client gave the id. Only such an id can have been used before.
  let isGiven: Bool

  /// Reads the header, and compares it with the `request_id` of the body, where there is one. Throws a
  /// problem that names the header where it is no request id, or where both are given and differ.
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

  /// What a request id must be.
  static let hint = "Give 1 to 80 of the characters A-Z, a-z, 0-9, dot, underscore, colon, hyphen."

  private static let header: StaticString = "Idempotency-Key"
  private static let headerName = "Idempotency-Key"

  /// The header's text: as it is, or out of quotes as a string of RFC 8941. Nil where a quote does not end.
  private static func unquoted(_ header: String) -> String? {
    var text = header[...]
    while text.first == " " || text.first == "\t" { text.removeFirst() }
    while text.last == " " || text.last == "\t" { text.removeLast() }
    guard text.first == "\"" else { return String(text) }
    guard text.count >= 2, text.last == "\"" else { return nil }
    // What may be escaped in such a string, a quote and a backslash, is not allowed in a request id.
    return String(text.dropFirst().dropLast())
  }

  /// A request id of 128 random bits, so that nobody can guess it.
  private static func made() -> RequestID {
    var words = SystemRandomNumberGenerator()
    let digits = (0..<2).map { _ in String(words.next(), radix: 36) }.joined()
    guard let id = RequestID("r" + digits) else { preconditionFailure("digits are allowed in a request id") }
    return id
  }
}

/// A hash of everything that a request asks, to know the same request again (B37). The order of the fields in
/// its body does not matter, nor where its name was given.
enum ContentHash {
  /// The hash of an operation on what the path names. `content`: what was asked, in a canonical order.
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
