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
