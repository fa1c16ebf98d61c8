/// Whole numbers in decimal digits, read from bytes and written into them.
package enum DecimalText {
  /// The number that the bytes write in plain digits with an optional minus; nil for anything else, and for
  /// a number that is no `Int64`.
  @inlinable
  package static func read(_ text: UnsafeRawBufferPointer) -> Int64? {
    let isNegative = text.first == UInt8(ascii: "-")
    let digits = isNegative ? UnsafeRawBufferPointer(rebasing: text.dropFirst()) : text
    guard !digits.isEmpty else { return nil }
    // The sum is kept negative, because the least `Int64` has no positive counterpart.
    var number: Int64 = 0
    for digit in digits {
      guard digit >= UInt8(ascii: "0"), digit <= UInt8(ascii: "9") else { return nil }
      let (tens, isTooBig) = number.multipliedReportingOverflow(by: 10)
      let (sum, isStillTooBig) = tens.subtractingReportingOverflow(Int64(digit - UInt8(ascii: "0")))
      if isTooBig || isStillTooBig { return nil }
      number = sum
    }
    if isNegative { return number }
    return number == .min ? nil : -number
  }

  /// Writes a number's digits; returns the offset after them. `bytes` must have room for 20 from `offset` on.
  @inlinable
  package static func write(_ number: UInt64, into bytes: UnsafeMutableRawPointer, at offset: Int) -> Int {
    var digits = 1
    var rest = number
    while rest >= 10 {
      rest /= 10
      digits += 1
    }
    rest = number
    for index in stride(from: offset + digits - 1, through: offset, by: -1) {
      bytes.storeBytes(
        of: UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10), toByteOffset: index, as: UInt8.self)
      rest /= 10
    }
    return offset + digits
  }
}
