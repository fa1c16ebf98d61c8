import MicroHTTP

/// A link to a neighbouring page: this request's target with another edge, as a reference that names the
/// query alone (RFC 8288, RFC 3986).
enum PageLink {
  /// What places a page; all else of the query goes with it. A ticket goes nowhere.
  private static let places: Set<String> = ["before", "after", "around", "inclusive", "ticket"]

  /// The header's value for one neighbour. Names are compared as they decode: `%61fter` is `after`.
  static func text(_ request: Request, _ edge: String, _ token: String, _ relation: String) -> String {
    var query = ""
    for item in request.query where !places.contains(item.name) {
      query += "\(text(item.encodedName))=\(text(item.encodedValue))&"
    }
    return "<?\(query)\(edge)=\(encoded(token))>; rel=\"\(relation)\""
  }

  /// Bytes as they came, but for those that would end the reference or the header early.
  private static func text(_ bytes: UnsafeRawBufferPointer) -> String {
    var text = ""
    for byte in bytes {
      if byte > 0x20, byte < 0x7F, byte != UInt8(ascii: "<"), byte != UInt8(ascii: ">") {
        text.unicodeScalars.append(Unicode.Scalar(byte))
      } else {
        text += escape(byte)
      }
    }
    return text
  }

  /// A text as a query's value: what RFC 3986 does not reserve stands for itself.
  private static func encoded(_ token: String) -> String {
    var text = ""
    for byte in token.utf8 {
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E:
        text.unicodeScalars.append(Unicode.Scalar(byte))
      default: text += escape(byte)
      }
    }
    return text
  }

  private static func escape(_ byte: UInt8) -> String {
    let digits = Array("0123456789ABCDEF")
    return "%\(digits[Int(byte >> 4)])\(digits[Int(byte & 15)])"
  }
}
