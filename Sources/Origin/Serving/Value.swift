import JSON
import Platform

/// A JSON value that outlives its parser. The stand-in is a test server, so this type is simple rather than
/// fast; lists are written directly from rows without it.
indirect enum Value: Sendable, Equatable {
  case null
  case bool(Bool)
  case integer(Int64)
  case double(Double)
  case string(String)
  case array([Value])
  case object([String: Value])

  init(_ json: JSONValue) {
    switch json.kind {
    case .object:
      var fields: [String: Value] = [:]
      for field in json.fields { fields[String(decoding: field.name, as: UTF8.self)] = Value(field.value) }
      self = .object(fields)
    case .array: self = .array(json.items.map(Value.init))
    case .string: self = .string(json.string ?? "")
    case .integer: self = json.int64.map(Value.integer) ?? .double(json.double ?? 0)
    case .double: self = .double(json.double ?? 0)
    case .bool: self = .bool(json.bool ?? false)
    case .null: self = .null
    }
  }

  /// Reads JSON from the database or from a recording. Text that is not JSON becomes null.
  init(stored text: String) {
    // `try?`: one fragment that cannot be read must not spoil the whole answer. A recording refuses null
    // itself.
    self = (try? JSONParser().parse(text) { Value($0) }) ?? .null
  }

  subscript(_ name: String) -> Value? {
    if case .object(let fields) = self { fields[name] } else { nil }
  }

  var string: String? { if case .string(let text) = self { text } else { nil } }
  var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
  var items: [Value] { if case .array(let items) = self { items } else { [] } }
  var strings: [String] { items.compactMap(\.string) }
  var fields: [String: Value] { if case .object(let fields) = self { fields } else { [:] } }

  /// Writes the value, with the fields of objects in the order of their names, so that answers can be
  /// compared.
  func write(to json: inout JSONWriter) {
    switch self {
    case .null: json.null()
    case .bool(let flag): json.value(flag)
    case .integer(let number): json.value(number)
    case .double(let number): json.value(number)
    case .string(let text): json.value(text)
    case .array(let items):
      json.beginArray()
      for item in items { item.write(to: &json) }
      json.endArray()
    case .object(let fields):
      json.beginObject()
      for name in fields.keys.sorted() {
        json.name(name)
        fields[name]?.write(to: &json)
      }
      json.endObject()
    }
  }

  /// As JSON text.
  var text: String {
    var json = JSONWriter()
    write(to: &json)
    return String(decoding: json.buffer.bytes, as: UTF8.self)
  }
}

extension JSONWriter {
  /// Writes a name that is known only at run time.
  mutating func name(_ name: String) {
    var name = name
    name.withUTF8 { self.name(UnsafeRawBufferPointer($0)) }
  }

  /// Writes a field whose value is a fragment of JSON from the database.
  mutating func field(_ name: StaticString, stored text: String) {
    self.name(name)
    var text = text
    text.withUTF8 { splice(UnsafeRawBufferPointer($0)) }
  }
}
