/// Base64 with the alphabet of URLs and without padding (RFC 4648 §5), as tokens are written.
///
/// Decoding is strict: one text for one value. Padding, other characters, a length no value has and leftover
/// bits that are not zero are refused, so that a token cannot be written in two ways.
package enum Base64URL {
  private static let alphabet: StaticString =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

  /// The text of `bytes`.
  package static func encode(_ bytes: some Collection<UInt8>) -> String {
    var text = ByteBuffer(capacity: bytes.count * 4 / 3 + 4)
    Array(bytes).withUnsafeBytes { append($0, to: &text) }
    return String(decoding: text.bytes, as: UTF8.self)
  }

  /// Appends the text of `bytes` to `text`.
  package static func append(_ bytes: UnsafeRawBufferPointer, to text: inout ByteBuffer) {
    let letters = alphabet.utf8Start
    var pending: UInt32 = 0
    var bits = 0
    text.reserve(bytes.count * 4 / 3 + 4)
    for byte in bytes {
      pending = pending << 8 | UInt32(byte)
      bits += 8
      while bits >= 6 {
        bits -= 6
        text.append(letters[Int(pending >> UInt32(bits)) & 63])
      }
    }
    if bits > 0 { text.append(letters[Int(pending << UInt32(6 - bits)) & 63]) }
  }

  /// The bytes of `text`, or nil where it is not written exactly as `encode` would.
  package static func decode(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
    guard text.count % 4 != 1 else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count * 3 / 4)
    var pending: UInt32 = 0
    var bits = 0
    for letter in text {
      guard let value = value(of: letter) else { return nil }
      pending = pending << 6 | value
      bits += 6
      if bits >= 8 {
        bits -= 8
        bytes.append(UInt8(truncatingIfNeeded: pending >> UInt32(bits)))
      }
    }
    guard pending & (1 << UInt32(bits) - 1) == 0 else { return nil }
    return bytes
  }

  @inline(__always)
  private static func value(of letter: UInt8) -> UInt32? {
    switch letter {
    case 0x41...0x5A: UInt32(letter) - 0x41
    case 0x61...0x7A: UInt32(letter) - 0x61 + 26
    case 0x30...0x39: UInt32(letter) - 0x30 + 52
    case 0x2D: 62
    case 0x5F: 63
    default: nil
    }
  }
}
