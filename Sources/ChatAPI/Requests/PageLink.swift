import ChatModel
import MicroHTTP
import Platform

/// A link to a neighbouring page (RFC 8288): this request's query with another edge, as a relative reference
/// that begins with `?` (RFC 3986).
enum PageLink {
  /// The longest query that links repeat, in bytes. Answers to a longer one have no links: their body has the
  /// tokens of the neighbouring pages too.
  static let mostQueryBytes = 1024

  /// Whether links can repeat the request's query.
  static func repeats(_ request: Request) -> Bool { request.encodedQuery.count <= mostQueryBytes }

  /// Whether links leave the parameter out: it says where a page begins, or it is a ticket.
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
    token.withUTF8 {
      PercentEncoding.append(
        UnsafeRawBufferPointer($0), to: &value, keeping: PercentEncoding.isUnreserved)
    }
    end(relation, into: &value)
    return String(decoding: value.bytes, as: UTF8.self)
  }

  /// Appends the beginning that the values for all neighbours share.
  static func begin(_ request: Request, into value: inout ByteBuffer) {
    value.append("<?")
    for item in request.query where !isAnchor(item) {
      PercentEncoding.append(item.encodedName, to: &value, keeping: isOfReference)
      value.append("=")
      PercentEncoding.append(item.encodedValue, to: &value, keeping: isOfReference)
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

  /// Whether the byte needs no encoding: it ends neither the reference nor the header.
  private static func isOfReference(_ byte: UInt8) -> Bool {
    byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "<") && byte != UInt8(ascii: ">")
  }
}
