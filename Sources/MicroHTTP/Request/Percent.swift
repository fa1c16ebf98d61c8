import Glibc

/// Percent-decoding over raw bytes.
enum Percent {
  /// Decodes into `target`, which may be where `encoded` begins. Returns the number of decoded bytes; nil for
  /// a bad escape or a zero byte.
  static func decode(
    _ encoded: UnsafeRawBufferPointer, into target: UnsafeMutablePointer<UInt8>, plusIsSpace: Bool
  ) -> Int? {
    var written = 0
    var index = 0
    while index < encoded.count {
      var byte = encoded[index]
      index += 1
      if byte == UInt8(ascii: "%") {
        guard index + 1 < encoded.count, let high = nibble(encoded[index]),
          let low = nibble(encoded[index + 1])
        else { return nil }
        byte = high << 4 | low
        index += 2
        if byte == 0 { return nil }
      } else if plusIsSpace, byte == UInt8(ascii: "+") {
        byte = 0x20
      }
      target[written] = byte
      written += 1
    }
    return written
  }

  /// Whether `encoded` decodes to UTF-8 without a zero byte.
  static func isText(_ encoded: UnsafeRawBufferPointer) -> Bool {
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: encoded.count + 1) { room in
      guard let count = decode(encoded, into: room.baseAddress!, plusIsSpace: true) else { return false }
      return isUTF8(UnsafeRawBufferPointer(start: room.baseAddress, count: count))
    }
  }

  static func isUTF8(_ bytes: UnsafeRawBufferPointer) -> Bool {
    String(validating: bytes, as: UTF8.self) != nil
  }

  /// The decoded text of an encoded query part that has been checked before.
  static func text(_ encoded: UnsafeRawBufferPointer) -> String {
    String(unsafeUninitializedCapacity: encoded.count) { room in
      guard let start = room.baseAddress else { return 0 }
      return decode(encoded, into: start, plusIsSpace: true) ?? 0
    }
  }

  private static func nibble(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
