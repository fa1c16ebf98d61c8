/// Numbers as digits, written where room was made: for texts that are made for every answer.
package enum Digits {
  /// How many digits `writeHex` writes.
  package static let hexDigits = 16

  /// Writes all 16 hexadecimal digits, in lower case.
  package static func writeHex(
    _ number: UInt64, into bytes: UnsafeMutableRawBufferPointer, at place: Int
  ) {
    var rest = number
    for index in stride(from: place + hexDigits - 1, through: place, by: -1) {
      let digit = UInt8(truncatingIfNeeded: rest & 15)
      bytes[index] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
      rest >>= 4
    }
  }

  /// Reads what `writeHex` wrote, and nothing else.
  package static func readHex(_ digits: Slice<UnsafeRawBufferPointer>) -> UInt64? {
    guard digits.count == hexDigits else { return nil }
    var number: UInt64 = 0
    for byte in digits {
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): number = number << 4 | UInt64(byte - UInt8(ascii: "0"))
      case UInt8(ascii: "a")...UInt8(ascii: "f"): number = number << 4 | UInt64(byte - UInt8(ascii: "a") + 10)
      default: return nil
      }
    }
    return number
  }

  /// Reads what `writeDecimal` wrote, and nothing else: no sign, no zero before other digits.
  package static func readDecimal(_ digits: Slice<UnsafeRawBufferPointer>) -> Int64? {
    guard let first = digits.first, first != UInt8(ascii: "0") || digits.count == 1 else { return nil }
    var number: Int64 = 0
    for byte in digits {
      guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
      let (tens, isTooBig) = number.multipliedReportingOverflow(by: 10)
      let (sum, isStillTooBig) = tens.addingReportingOverflow(Int64(byte - UInt8(ascii: "0")))
      if isTooBig || isStillTooBig { return nil }
      number = sum
    }
    return number
  }

  /// Writes a number that is not negative in decimal digits; answers the place behind them.
  package static func writeDecimal(
    _ number: Int64, into bytes: UnsafeMutableRawBufferPointer, at place: Int
  ) -> Int {
    var digits = 1
    var rest = number
    while rest >= 10 {
      rest /= 10
      digits += 1
    }
    rest = number
    for index in stride(from: place + digits - 1, through: place, by: -1) {
      bytes[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
      rest /= 10
    }
    return place + digits
  }
}
