/// Percent-encoding (RFC 3986).
package enum PercentEncoding {
  /// Whether a byte stands for itself in every part of a URL.
  @inlinable @inline(__always)
  package static func isUnreserved(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
    default: false
    }
  }

  /// The text as one segment of a path or one value of a query: a slash is encoded, too.
  package static func encode(_ text: String, keeping isSafe: (UInt8) -> Bool = isUnreserved) -> String {
    var encoded = ByteBuffer(capacity: text.utf8.count + 16)
    var text = text
    text.withUTF8 { append(UnsafeRawBufferPointer($0), to: &encoded, keeping: isSafe) }
    return String(decoding: encoded.bytes, as: UTF8.self)
  }

  /// Appends the bytes. Those that are not safe are encoded.
  @inlinable @inline(__always)
  package static func append(
    _ bytes: UnsafeRawBufferPointer, to target: inout ByteBuffer, keeping isSafe: (UInt8) -> Bool
  ) {
    if bytes.allSatisfy(isSafe) { return target.append(bytes) }
    for byte in bytes {
      if isSafe(byte) { target.append(byte) } else { append(escaping: byte, to: &target) }
    }
  }

  /// Appends the three characters of an encoded byte.
  @usableFromInline
  package static func append(escaping byte: UInt8, to target: inout ByteBuffer) {
    target.append(UInt8(ascii: "%"))
    for nibble in [byte >> 4, byte & 15] { target.append(nibble < 10 ? 0x30 + nibble : 0x37 + nibble) }
  }
}
