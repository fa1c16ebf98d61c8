import CSimdjson
import Platform

/// Why bytes are not JSON, or not of the expected form.
package struct JSONError: Error, CustomStringConvertible, Equatable {
  /// What is wrong, in words for a log or a problem's detail.
  package let description: String

  /// Whether a number is malformed or does not fit into 64 bits.
  package let isOfNumber: Bool

  /// An error that says `description`.
  package init(_ description: String, isOfNumber: Bool = false) {
    self.description = description
    self.isOfNumber = isOfNumber
  }
}

/// A parser that keeps its memory between documents; for one thread at a time.
///
/// simdjson's DOM parser checks every byte, so what was parsed may be stored and spliced. The document is
/// lent for the length of a closure because the next parse overwrites it.
package final class JSONParser {
  private let handle: OpaquePointer

  /// A parser; its memory grows to the largest document it has seen.
  package init() { handle = perch_json_new()! }

  deinit { perch_json_free(handle) }

  /// Parses `bytes` and lends the root value.
  @inlinable
  package func parse<Result>(_ bytes: UnsafeRawBufferPointer, _ body: (JSONValue) throws -> Result) throws
    -> Result
  {
    try body(root(of: bytes))
  }

  /// The root value, valid until the next parse.
  @usableFromInline
  func root(of bytes: UnsafeRawBufferPointer) throws -> JSONValue {
    var root = perch_json_value()
    let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
    let code = perch_json_parse(handle, start, bytes.count, &root)
    guard code == 0 else {
      throw JSONError(
        String(cString: perch_json_error(code)), isOfNumber: perch_json_is_number_error(code) != 0)
    }
    return JSONValue(raw: root)
  }

  /// Parses `bytes` and passes the root value to `body`. Nil: the bytes are not JSON. For callers that need
  /// no reason.
  package func read<Result>(_ bytes: UnsafeRawBufferPointer, _ body: (JSONValue) -> Result) -> Result? {
    do { return try parse(bytes, body) } catch { return nil }
  }

  /// Parses a copy of `text`, for tests and configuration.
  package func parse<Result>(_ text: String, _ body: (JSONValue) throws -> Result) throws -> Result {
    try Array(text.utf8).withUnsafeBytes { try parse($0, body) }
  }
}

extension JSONParser {
  /// Parses `bytes` with a shared parser and lends the root value.
  @inlinable
  package static func parse<Result>(
    _ bytes: UnsafeRawBufferPointer, _ body: (JSONValue) throws -> Result
  ) throws -> Result {
    let parser = borrow(for: bytes.count)
    defer { giveBack(parser, after: bytes.count) }
    return try parser.parse(bytes, body)
  }

  /// A parser's memory grows with its documents, so a large document gets a parser of its own.
  @usableFromInline
  static func borrow(for bytes: Int) -> JSONParser {
    guard bytes <= mostKeptBytes else { return JSONParser() }
    return kept.withLock { $0.popLast() }?.parser ?? JSONParser()
  }

  @usableFromInline
  static func giveBack(_ parser: JSONParser, after bytes: Int) {
    guard bytes <= mostKeptBytes else { return }
    kept.withLock { if $0.count < mostKept { $0.append(Kept(parser: parser)) } }
  }

  private struct Kept: @unchecked Sendable {  // because only the caller that took it from the list uses it
    let parser: JSONParser
  }

  private static let kept = Guarded<[Kept]>([])
  private static let mostKept = 16
  private static let mostKeptBytes = 32 << 10
}

/// A value in a parsed document. Valid inside the closure that lent the document, and not after.
package struct JSONValue {
  let raw: perch_json_value

  /// The kinds of JSON values.
  package enum Kind: Sendable { case object, array, string, integer, double, bool, null }

  /// What kind of value it is.
  package var kind: Kind {
    switch Int(perch_json_kind(raw)) {
    case PERCH_JSON_OBJECT: .object
    case PERCH_JSON_ARRAY: .array
    case PERCH_JSON_STRING: .string
    case PERCH_JSON_INTEGER: .integer
    case PERCH_JSON_DOUBLE: .double
    case PERCH_JSON_BOOL: .bool
    default: .null
    }
  }

  /// The object's field called `name`; nil if the value is no object or has no such field.
  package subscript(_ name: StaticString) -> JSONValue? {
    field(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
  }

  /// The object's field called `name`, for names only known at run time.
  package func field(named name: String) -> JSONValue? {
    var name = name
    return name.withUTF8 { field(UnsafeRawBufferPointer($0)) }
  }

  private func field(_ name: UnsafeRawBufferPointer) -> JSONValue? {
    var found = perch_json_value()
    let code = perch_json_field(
      raw, name.baseAddress?.assumingMemoryBound(to: CChar.self), name.count, &found)
    return code == 0 ? JSONValue(raw: found) : nil
  }

  /// The value as a whole number; nil if it is none.
  package var int64: Int64? {
    var number: Int64 = 0
    return perch_json_int64(raw, &number) == 0 ? number : nil
  }

  /// The value as a number; nil if it is none.
  package var double: Double? {
    var number = 0.0
    return perch_json_double(raw, &number) == 0 ? number : nil
  }

  /// The value as a boolean; nil if it is none.
  package var bool: Bool? {
    var flag: Int32 = 0
    return perch_json_bool(raw, &flag) == 0 ? flag != 0 : nil
  }

  /// The value as unescaped UTF-8; nil if it is no string. Valid as long as the value.
  package var utf8: UnsafeRawBufferPointer? {
    var start: UnsafePointer<CChar>?
    var length = 0
    guard perch_json_string(raw, &start, &length) == 0 else { return nil }
    return UnsafeRawBufferPointer(start: start, count: length)
  }

  /// The value as a String; nil if it is none. Not for hot paths.
  package var string: String? { utf8.map { String(decoding: $0, as: UTF8.self) } }

  /// Whether the value is null.
  package var isNull: Bool { perch_json_kind(raw) == PERCH_JSON_NULL }

  /// The values of an array; empty if the value is no array.
  package var items: Items {
    var walk = perch_json_walk()
    return perch_json_walk_array(raw, &walk) == 0 ? Items(walk: walk) : Items(walk: nil)
  }

  /// The fields of an object in the order they were written; empty if the value is no object.
  package var fields: Fields {
    var walk = perch_json_walk()
    return perch_json_walk_object(raw, &walk) == 0 ? Fields(walk: walk) : Fields(walk: nil)
  }

  /// An array's values, one after the other.
  package struct Items: Sequence, IteratorProtocol {
    fileprivate var walk: perch_json_walk?

    fileprivate init(walk: perch_json_walk?) { self.walk = walk }

    /// No values.
    package init() { walk = nil }

    /// The next value.
    package mutating func next() -> JSONValue? {
      guard walk != nil else { return nil }
      var value = perch_json_value()
      return perch_json_next(&walk!, &value) != 0 ? JSONValue(raw: value) : nil
    }
  }

  /// An object's fields, one after the other.
  package struct Fields: Sequence, IteratorProtocol {
    fileprivate var walk: perch_json_walk?

    /// The next field; its name is valid as long as the document.
    package mutating func next() -> (name: UnsafeRawBufferPointer, value: JSONValue)? {
      guard walk != nil else { return nil }
      var value = perch_json_value()
      var start: UnsafePointer<CChar>?
      var length = 0
      guard perch_json_next_field(&walk!, &start, &length, &value) != 0 else { return nil }
      return (UnsafeRawBufferPointer(start: start, count: length), JSONValue(raw: value))
    }
  }
}
