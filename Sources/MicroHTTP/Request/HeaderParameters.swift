/// `; name=value; name="value"` behind a header's main value.
enum HeaderParameters {
  /// The value of `name`, without its quotes and backslashes.
  static func value(_ name: String, in header: String) -> String? {
    var rest = header.utf8.drop { $0 != UInt8(ascii: ";") }
    while rest.popFirst() != nil {
      rest = rest.drop { $0 == 0x20 || $0 == 0x09 }
      let key = rest.prefix { $0 != UInt8(ascii: "=") && $0 != UInt8(ascii: ";") }
      rest = rest.dropFirst(key.count)
      guard rest.first == UInt8(ascii: "=") else { continue }
      rest = rest.dropFirst()
      let value = read(&rest)
      if Substring(key).lowercased().trimmingSpaces == name { return value }
      rest = rest.drop { $0 != UInt8(ascii: ";") }
    }
    return nil
  }

  private static func read(_ rest: inout Substring.UTF8View.SubSequence) -> String {
    var bytes: [UInt8] = []
    guard rest.first == UInt8(ascii: "\"") else {
      let token = rest.prefix { $0 != UInt8(ascii: ";") && $0 != 0x20 }
      rest = rest.dropFirst(token.count)
      return String(decoding: token, as: UTF8.self)
    }
    rest = rest.dropFirst()
    while let byte = rest.popFirst(), byte != UInt8(ascii: "\"") {
      if byte == UInt8(ascii: "\\"), let escaped = rest.first, escaped == 0x22 || escaped == 0x5C {
        bytes.append(escaped)
        rest = rest.dropFirst()
      } else {
        bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

extension String {
  fileprivate var trimmingSpaces: String {
    String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
  }
}
