import ChatModel
import JSON
import Platform

// Tolerant reading: servers of this kind differ in whether a flag is a bool or a text, a time is in seconds
// or milliseconds, an id a number or a text. What cannot be read at all makes the item unreadable, never the
// page (B35).
//
// Every number has a range (`Limits`). Ids and moments outside of it are refused, as if the field were
// missing: a moment in the far future would outlive every later answer. Counts and sizes are clamped. Floors
// are clamped too, because without its floor a membership shows all messages (B23).

/// Thrown for an item of an answer that cannot be read, with the field at fault.
struct Unreadable: Error, CustomStringConvertible {
  let field: StaticString
  var fault: StaticString = "is missing, of a wrong type or out of range"

  var description: String { "\(field) \(fault)" }
}

extension JSONValue {
  /// A whole number, also as text or as a float without a fraction.
  var tolerantInt: Int64? {
    if let number = int64 { return number }
    if let number = double, number == number.rounded(), abs(number) < 9e15 { return Int64(number) }
    return string.flatMap { Int64($0) }
  }

  /// A truth value, also as text or number.
  var tolerantBool: Bool? {
    if let flag = bool { return flag }
    if let number = int64 { return number != 0 }
    return switch string {
    case "true", "True": true
    case "false", "False": false
    default: nil
    }
  }

  /// The nearest whole number, also of numbers with a fraction or beyond Int64.
  private var nearestInt: Int64? {
    if let number = tolerantInt { return number }
    guard let number = double else { return nil }
    return Int64(exactly: number.rounded(.towardZero)) ?? (number < 0 ? .min : .max)
  }

  /// The number in the range that is nearest to this one.
  func number(in range: ClosedRange<Int64>) -> Int64? { nearestInt.map(range.nearest) }

  /// A number of messages or people.
  var count: Int64? { number(in: Limits.counts) }

  /// The id of a message.
  var messageID: Int64? { tolerantInt.flatMap { Limits.messageIDs.contains($0) ? $0 : nil } }

  /// A time in ms; nil if it is none or out of range.
  var milliseconds: Int64? {
    guard let number = tolerantInt, number >= 0 else { return nil }
    let moment = JSONValue.milliseconds(number)
    return Limits.moments.contains(moment) ? moment : nil
  }

  /// The moment in ms before which a user sees nothing. A number that is too large becomes the year 2286.
  var floor: Int64? { nearestInt.map { Limits.moments.nearest(to: JSONValue.milliseconds(max(0, $0))) } }

  /// A number too small for this century's milliseconds is in seconds.
  private static func milliseconds(_ number: Int64) -> Int64 {
    number > 0 && number < 100_000_000_000 ? number * 1000 : number
  }

  func count(_ name: StaticString) -> Int64 { self[name]?.count ?? 0 }
  func flag(_ name: StaticString) -> Bool { self[name]?.tolerantBool ?? false }
  func time(_ name: StaticString) -> Int64 { self[name]?.milliseconds ?? 0 }
  func text(_ name: StaticString) -> String { self[name]?.string ?? "" }

  /// The field's text; "" if it is no text, nil if there is no such field.
  func textIfAny(_ name: StaticString) -> String? { self[name].map { $0.string ?? "" } }

  /// The objects in the field's array; nil if the field is no array.
  func objects(_ name: StaticString) -> [JSONValue]? {
    guard let value = self[name], value.kind == .array else { return nil }
    return value.items.filter { $0.kind == .object }
  }

  /// The field if it is an object with something in it.
  func object(_ name: StaticString) -> JSONValue? {
    guard let value = self[name], value.kind == .object, value.fields.contains(where: { _ in true }) else {
      return nil
    }
    return value
  }
}

extension JSONWriter {
  /// `"name": "text"` copied from the value, "" if it is no text.
  mutating func copy(text value: JSONValue?, as name: StaticString) {
    self.name(name)
    self.value(utf8: value?.utf8 ?? UnsafeRawBufferPointer(start: nil, count: 0))
  }

  /// The same, left out if there is no value. Returns whether there is one.
  mutating func copyIfAny(text value: JSONValue?, as name: StaticString) -> Bool {
    guard let value else { return false }
    copy(text: value, as: name)
    return true
  }

  /// `"name": number`, left out if there is none. Returns whether there is one.
  mutating func fieldIfAny(_ name: StaticString, _ number: Int64?) -> Bool {
    guard let number else { return false }
    field(name, number)
    return true
  }

  /// `"name": true` or `false`, left out if there is neither. Returns whether there is one.
  mutating func fieldIfAny(_ name: StaticString, _ flag: Bool?) -> Bool {
    guard let flag else { return false }
    field(name, flag)
    return true
  }

  /// `[value, …]`
  mutating func array(_ values: [JSONValue]) {
    beginArray()
    for value in values { self.value(value) }
    endArray()
  }

  /// The field as it came, left out if there is none or it is null.
  mutating func copy(_ value: JSONValue?, as name: StaticString) {
    guard let value, !value.isNull else { return }
    self.name(name)
    self.value(value)
  }
}

/// JSON that `body` wrote.
func written(_ body: (inout JSONWriter) throws -> Void) rethrows -> [UInt8] {
  var writer = JSONWriter(capacity: 512)
  try body(&writer)
  return writer.finish().array
}
