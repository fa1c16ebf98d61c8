import ChatModel
import MicroHTTP
import Platform

/// A link to a neighbouring page: this request's target with another edge, as a reference that names the
/// query alone (RFC 8288, RFC 3986).
enum PageLink {
  /// Bytes of a query that links repeat. Pages that were asked for with a longer one have no links: their
  /// body has the tokens of their neighbours too.
  static let mostQueryBytes = 1024

  /// Whether links can repeat the request's query.
  static func repeats(_ request: Request) -> Bool { request.encodedQuery.count <= mostQueryBytes }

  /// Whether it says where a page begins: all else of the query goes with it. A ticket goes nowhere.
  private static func isAnchor(_ item: QueryItem) -> Bool {
    item.isCalled("before") || item.isCalled("after") || item.isCalled("around")
      || item.isCalled("inclusive") || item.isCalled("ticket")
  }

  /// The header's value for one neighbour. Names are compared as they decode: `%61fter` is `after`.
  static func text(
    _ request: Request, _ edge: StaticString, _ token: String, _ relation: StaticString
  ) -> String {
    var value = ByteBuffer(capacity: 256)
    begin(request, into: &value)
    value.append(edge)
    value.append("=")
    var token = token
    token.withUTF8 { append(UnsafeRawBufferPointer($0), to: &value, isSafe: isUnreserved) }
    end(relation, into: &value)
    return String(decoding: value.bytes, as: UTF8.self)
  }

  /// Appends what the values for all neighbours begin with.
  static func begin(_ request: Request, into value: inout ByteBuffer) {
    value.append("<?")
    for item in request.query where !isAnchor(item) {
      append(item.encodedName, to: &value, isSafe: isOfReference)
      value.append("=")
      append(item.encodedValue, to: &value, isSafe: isOfReference)
      value.append("&")
    }
  }

  /// Appends the rest of the value for the neighbouring page at that position.
  static func end(
    _ edge: StaticString, _ position: Position, _ relation: StaticString, into value: inout ByteBuffer
  ) {
    value.append(edge)
    value.append("=")
    value.append(Position.textBytes) { position.write(into: $0) }
    end(relation, into: &value)
  }

  private static func end(_ relation: StaticString, into value: inout ByteBuffer) {
    value.append(">; rel=\"")
    value.append(relation)
    value.append("\"")
  }

  /// Bytes as they are, but for those that are not safe.
  @inline(__always)
  private static func append(
    _ bytes: UnsafeRawBufferPointer, to value: inout ByteBuffer, isSafe: (UInt8) -> Bool
  ) {
    if bytes.allSatisfy(isSafe) {
      value.append(bytes)
    } else {
      for byte in bytes { if isSafe(byte) { value.append(byte) } else { append(escaping: byte, to: &value) } }
    }
  }

  /// What neither ends the reference nor the header early.
  private static func isOfReference(_ byte: UInt8) -> Bool {
    byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "<") && byte != UInt8(ascii: ">")
  }

  /// What stands for itself in a query's value (RFC 3986).
  private static func isUnreserved(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
    default: false
    }
  }

  private static func append(escaping byte: UInt8, to value: inout ByteBuffer) {
    value.append("%")
    for nibble in [byte >> 4, byte & 15] { value.append(nibble < 10 ? 0x30 + nibble : 0x37 + nibble) }
  }
}
