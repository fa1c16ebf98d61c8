import CSimdjson
import Platform

/// Why bytes are not the JSON that was wanted.
package struct JSONError: Error, CustomStringConvertible, Equatable {
  /// What is wrong, in words for a log or a problem's detail.
  package let description: String

  /// An error that says `description`.
  package init(_ description: String) { self.description = description }
}

/// A parser with its memory, used again and again by one thread.
///
/// simdjson's DOM parser checks every byte, so what was parsed may be stored and spliced. The document is
/// lent for the length of a closure because the next parse overwrites it.
package final class JSONParser {
  private let handle: OpaquePointer

  /// A parser; its memory grows to the largest document it has seen.
  package init() { handle = perch_json_new()! }

  deinit { perch_json_free(handle) }

  /// Parses `bytes` and lends the root value.
  package func parse<Result>(_ bytes: UnsafeRawBufferPointer, _ body: (JSONValue) throws -> Result) throws
    -> Result
  {
    var root = perch_json_value()
    let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
    let code = perch_json_parse(handle, start, bytes.count, &root)
    guard code == 0 else { throw JSONError(String(cString: perch_json_error(code))) }
    return try body(JSONValue(raw: root))
  }

  /// What `body` makes of the root value; nil where the bytes are no JSON, for whom it is the same why not.
  package func read<Result>(_ bytes: UnsafeRawBufferPointer, _ body: (JSONValue) -> Result) -> Result? {
    do { return try parse(bytes, body) } catch { return nil }
  }

  /// Parses a copy of `text`, for tests and configuration.
  package func parse<Result>(_ text: String, _ body: (JSONValue) throws -> Result) throws -> Result {
    try Array(text.utf8).withUnsafeBytes { try parse($0, body) }
  }
}

extension JSONParser {
  /// Parses `bytes` with a parser that the next document will use too, and lends the root value.
  package static func parse<Result>(
    _ bytes: UnsafeRawBufferPointer, _ body: (JSONValue) throws -> Result
  ) throws -> Result {
    // A parser's memory grows with its documents, so a large one has a parser of its own.
    guard bytes.count <= mostKeptBytes else { return try JSONParser().parse(bytes, body) }
    let parser = kept.withLock { $0.popLast() }?.parser ?? JSONParser()
    defer { kept.withLock { if $0.count < mostKept { $0.append(Kept(parser: parser)) } } }
    return try parser.parse(bytes, body)
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

  /// The field of that name, or nil where this is no object or has none.
  package subscript(_ name: StaticString) -> JSONValue? {
    field(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
  }

  /// The field of that name, for names only known at run time.
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

  /// The whole number here, or nil.
  package var int64: Int64? {
    var number: Int64 = 0
    return perch_json_int64(raw, &number) == 0 ? number : nil
  }

  /// The number here, or nil.
  package var double: Double? {
    var number = 0.0
    return perch_json_double(raw, &number) == 0 ? number : nil
  }

  /// The truth value here, or nil.
  package var bool: Bool? {
    var flag: Int32 = 0
    return perch_json_bool(raw, &flag) == 0 ? flag != 0 : nil
  }

  /// The unescaped text here as UTF-8, or nil. Valid as long as the value.
  package var utf8: UnsafeRawBufferPointer? {
    var start: UnsafePointer<CChar>?
    var length = 0
    guard perch_json_string(raw, &start, &length) == 0 else { return nil }
    return UnsafeRawBufferPointer(start: start, count: length)
  }

  /// The text here as a String, or nil. Not for hot paths.
  package var string: String? { utf8.map { String(decoding: $0, as: UTF8.self) } }

  /// Whether null stands here.
  package var isNull: Bool { perch_json_kind(raw) == PERCH_JSON_NULL }

  /// The values of an array, or nothing where this is no array.
  package var items: Items {
    var walk = perch_json_walk()
    return perch_json_walk_array(raw, &walk) == 0 ? Items(walk: walk) : Items(walk: nil)
  }

  /// The fields of an object in the order they were written, or nothing where this is no object.
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
