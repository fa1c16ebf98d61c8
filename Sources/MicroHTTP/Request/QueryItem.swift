import Glibc
import Platform

/// One `name=value` of a query.
package struct QueryItem {
  /// The name as it came.
  package let encodedName: UnsafeRawBufferPointer
  /// The value as it came; empty when there is none.
  package let encodedValue: UnsafeRawBufferPointer
  private let isNameEscaped: Bool

  init(_ item: UnsafeRawBufferPointer) {
    let stop = item.offset(of: UInt8(ascii: "="))
    encodedName = UnsafeRawBufferPointer(rebasing: item[..<stop])
    isNameEscaped = encodedName.contains(where: QueryItem.isEscape)
    encodedValue = UnsafeRawBufferPointer(rebasing: item[Swift.min(stop + 1, item.count)...])
  }

  /// The decoded name.
  package var name: String { Percent.text(encodedName) }
  /// The decoded value.
  package var value: String { Percent.text(encodedValue) }

  /// Whether the name is `literal`, compared without decoding, because clients do not escape plain letters.
  package func isNamed(_ literal: StaticString) -> Bool {
    let wanted = literal.bytes
    return encodedName.count == wanted.count
      && (wanted.isEmpty || memcmp(encodedName.baseAddress!, wanted.baseAddress!, wanted.count) == 0)
  }

  /// Whether the name, decoded, is `literal`.
  package func isCalled(_ literal: StaticString) -> Bool {
    isNamed(literal) || isNameEscaped && name.utf8.elementsEqual(literal.bytes)
  }

  /// Whether both names are equal once they are decoded.
  package func isNamed(as other: QueryItem) -> Bool {
    encodedName.elementsEqual(other.encodedName)
      || (isNameEscaped || other.isNameEscaped) && name == other.name
  }

  /// Whether the value, decoded, is `literal`.
  package func hasValue(_ literal: StaticString) -> Bool {
    encodedValue.elementsEqual(literal.bytes)
      || isValueEscaped && value.utf8.elementsEqual(literal.bytes)
  }

  /// Lends the decoded value, without a copy if nothing in it is escaped.
  package func withValue<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
    if !isValueEscaped { return body(encodedValue) }
    var decoded = value
    return decoded.withUTF8 { body(UnsafeRawBufferPointer($0)) }
  }

  private var isValueEscaped: Bool { encodedValue.contains(where: QueryItem.isEscape) }

  private static func isEscape(_ byte: UInt8) -> Bool {
    byte == UInt8(ascii: "%") || byte == UInt8(ascii: "+")
  }

  /// The value as a number written in plain digits with an optional minus; nil for anything else.
  package var integer: Int64? { DecimalText.read(encodedValue) }
}
