import Glibc
import Platform

/// Writes JSON front to back into one buffer. The writer sets the commas; the caller nests correctly.
///
/// A value is either written, or spliced: copied from bytes that were checked when they were stored.
public struct JSONWriter: ~Copyable {
  /// The text so far.
  public var buffer: ByteBuffer
  @usableFromInline var needsComma = false

  /// An empty text with room for `capacity` bytes.
  package init(capacity: Int = 256) { buffer = ByteBuffer(capacity: capacity) }

  /// Appends to `buffer`, which must end where a value may follow.
  package init(continuing buffer: consuming ByteBuffer) { self.buffer = buffer }

  /// The finished text.
  package consuming func finish() -> ByteBuffer { buffer }

  @inlinable @inline(__always)
  mutating func separate() {
    if needsComma { buffer.append(UInt8(ascii: ",")) }
  }

  /// `{`
  @inlinable
  public mutating func beginObject() {
    separate()
    buffer.append(UInt8(ascii: "{"))
    needsComma = false
  }

  /// `}`
  @inlinable
  public mutating func endObject() {
    buffer.append(UInt8(ascii: "}"))
    needsComma = true
  }

  /// `[`
  @inlinable
  public mutating func beginArray() {
    separate()
    buffer.append(UInt8(ascii: "["))
    needsComma = false
  }

  /// `]`
  @inlinable
  public mutating func endArray() {
    buffer.append(UInt8(ascii: "]"))
    needsComma = true
  }

  /// A field's name; the next value is its value. `name` must need no escaping.
  @inlinable
  public mutating func name(_ name: StaticString) {
    separate()
    buffer.append(UInt8(ascii: "\""))
    buffer.append(name)
    buffer.append(UInt8(ascii: "\""))
    buffer.append(UInt8(ascii: ":"))
    needsComma = false
  }

  /// A field's name that is only known at run time.
  package mutating func name(_ name: UnsafeRawBufferPointer) {
    separate()
    buffer.append(quoted: name)
    buffer.append(UInt8(ascii: ":"))
    needsComma = false
  }

  /// A number.
  @inlinable
  public mutating func value(_ number: Int64) {
    separate()
    buffer.append(decimal: number)
    needsComma = true
  }

  /// A number.
  @inlinable
  public mutating func value(_ number: Int) { value(Int64(number)) }

  /// A number as the shortest text that reads back as itself; `null` if it is not finite.
  package mutating func value(_ number: Double) {
    separate()
    buffer.append(number.isFinite ? "\(number)" : "null")
    needsComma = true
  }

  /// `true` or `false`.
  @inlinable
  public mutating func value(_ flag: Bool) {
    separate()
    buffer.append(flag ? "true" : "false" as StaticString)
    needsComma = true
  }

  /// A text that needs no escaping.
  @inlinable
  public mutating func value(plain text: StaticString) {
    separate()
    buffer.append(UInt8(ascii: "\""))
    buffer.append(text)
    buffer.append(UInt8(ascii: "\""))
    needsComma = true
  }

  /// A text of `count` bytes that need no escaping, which `write` fills in.
  @inlinable
  public mutating func value(plain count: Int, _ write: (UnsafeMutableRawBufferPointer) -> Void) {
    separate()
    buffer.append(UInt8(ascii: "\""))
    buffer.append(count, write)
    buffer.append(UInt8(ascii: "\""))
    needsComma = true
  }

  /// A text.
  package mutating func value(_ text: String) {
    separate()
    buffer.append(quoted: text)
    needsComma = true
  }

  /// A text given as UTF-8.
  @inlinable
  public mutating func value(utf8: UnsafeRawBufferPointer) {
    separate()
    buffer.append(quoted: utf8)
    needsComma = true
  }

  /// A number as a text, as clients get every id.
  @inlinable
  public mutating func value(quoting number: Int64) {
    separate()
    buffer.append(UInt8(ascii: "\""))
    buffer.append(decimal: number)
    buffer.append(UInt8(ascii: "\""))
    needsComma = true
  }

  /// `null`
  package mutating func null() {
    separate()
    buffer.append("null" as StaticString)
    needsComma = true
  }

  /// One whole JSON value, spliced as it was stored.
  @inlinable
  public mutating func splice(_ json: UnsafeRawBufferPointer) {
    separate()
    buffer.append(json)
    needsComma = true
  }

  /// The inside of a stored object (`"a":1,"b":2`), spliced between this object's fields. May be empty.
  @inlinable
  public mutating func splice(fields: UnsafeRawBufferPointer) {
    guard fields.count > 0 else { return }
    separate()
    buffer.append(fields)
    needsComma = true
  }

  /// A parsed value, written again in its shortest form.
  package mutating func value(_ value: JSONValue) {
    switch value.kind {
    case .object:
      beginObject()
      for field in value.fields {
        name(field.name)
        self.value(field.value)
      }
      endObject()
    case .array:
      beginArray()
      for item in value.items { self.value(item) }
      endArray()
    case .string: self.value(utf8: value.utf8!)
    case .integer: if let number = value.int64 { self.value(number) } else { self.value(value.double!) }
    case .double: self.value(value.double!)
    case .bool: self.value(value.bool!)
    case .null: null()
    }
  }

  /// `"name": value`
  package mutating func field(_ name: StaticString, _ number: Int64) {
    self.name(name)
    value(number)
  }

  /// `"name": value`
  package mutating func field(_ name: StaticString, _ number: Int) {
    self.name(name)
    value(number)
  }

  /// `"name": value`
  package mutating func field(_ name: StaticString, _ flag: Bool) {
    self.name(name)
    value(flag)
  }

  /// `"name": value`
  package mutating func field(_ name: StaticString, _ text: String) {
    self.name(name)
    value(text)
  }
}
