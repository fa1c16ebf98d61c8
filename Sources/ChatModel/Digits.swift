import Platform

/// Reads and writes numbers as digits in the caller's buffer, because every answer has such texts.
package enum Digits {
  /// How many digits `writeHex` writes.
  package static let hexDigits = 16

  /// Writes all 16 hexadecimal digits, in lower case.
  package static func writeHex(
    _ number: UInt64, into bytes: UnsafeMutableRawBufferPointer, at offset: Int
  ) {
    let (first, second) = (hex(UInt32(number >> 32)), hex(UInt32(truncatingIfNeeded: number)))
    bytes.storeBytes(of: first.bigEndian, toByteOffset: offset, as: UInt64.self)
    bytes.storeBytes(of: second.bigEndian, toByteOffset: offset + 8, as: UInt64.self)
  }

  /// The eight hex digits of a number, one a byte, the first in the highest byte. All are computed at once.
  private static func hex(_ number: UInt32) -> UInt64 {
    var digits = UInt64(number)
    digits = (digits << 16 | digits) & 0x0000_FFFF_0000_FFFF
    digits = (digits << 8 | digits) & 0x00FF_00FF_00FF_00FF
    digits = (digits << 4 | digits) & 0x0F0F_0F0F_0F0F_0F0F
    // Adding six carries a digit above nine into the upper half of its byte.
    let areLetters = (digits &+ ones &* 6) >> 4 & ones
    return digits &+ ones &* 0x30 &+ areLetters &* (0x61 - 0x30 - 10)
  }

  private static let ones: UInt64 = 0x0101_0101_0101_0101

  /// Reads what `writeHex` wrote, and nothing else.
  package static func readHex(_ digits: Slice<UnsafeRawBufferPointer>) -> UInt64? {
    guard digits.count == hexDigits else { return nil }
    let bytes = UnsafeRawBufferPointer(rebasing: digits)
    guard let first = number(hex: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self))),
      let second = number(hex: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    else { return nil }
    return UInt64(first) << 32 | UInt64(second)
  }

  /// The number that eight hex digits stand for, the first in the highest byte; nil unless `hex` writes them.
  private static func number(hex text: UInt64) -> UInt32? {
    // Bit 6 tells letters from digits. `hex` does not write other bytes again, so these are refused below.
    let areLetters = text >> 6 & ones
    var digits = (text & (ones &* 0x0F)) &+ areLetters &* 9
    digits = (digits >> 4 | digits) & 0x00FF_00FF_00FF_00FF
    digits = (digits >> 8 | digits) & 0x0000_FFFF_0000_FFFF
    digits = digits >> 16 | digits
    let number = UInt32(truncatingIfNeeded: digits)
    return hex(number) == text ? number : nil
  }

  /// Reads what `writeDecimal` wrote, and nothing else: no sign, no zero before other digits.
  package static func readDecimal(_ digits: Slice<UnsafeRawBufferPointer>) -> Int64? {
    guard let first = digits.first, first != UInt8(ascii: "-"),
      first != UInt8(ascii: "0") || digits.count == 1
    else { return nil }
    return DecimalText.read(UnsafeRawBufferPointer(rebasing: digits))
  }

  /// The id of a message that a client names: 1 to 18 digits, as in the contract; nil for any other text.
  package static func messageID(_ text: String) -> Int64? {
    var text = text
    return text.withUTF8 {
      guard $0.count <= 18, $0.first != UInt8(ascii: "-") else { return nil }
      return DecimalText.read(UnsafeRawBufferPointer($0))
    }
  }

  /// Writes `number`, which is not negative, in decimal digits. Returns the offset after them.
  package static func writeDecimal(
    _ number: Int64, into bytes: UnsafeMutableRawBufferPointer, at offset: Int
  ) -> Int {
    DecimalText.write(UInt64(number), into: bytes.baseAddress!, at: offset)
  }
}
