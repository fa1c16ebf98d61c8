import JSON

/// The invalid fields of a body.
package struct InvalidFields: Error, Sendable {
  /// The most faults that one answer has. A body of 256 KiB can have tens of thousands.
  package static let most = 20

  /// Each field, and what the client has to change.
  package let faults: [(field: String, detail: String)]
}

/// The fields of a JSON object, read strictly: an unknown field, a field that comes twice and a field of a
/// wrong type are faults.
package struct BodyFields {
  private enum Value {
    case text(String), number(Int64), flag(Bool), texts([String]), none, other
  }

  private var values: [String: (value: Value, isKnown: Bool)] = [:]
  private var faults: [(field: String, detail: String)] = []
  private let prefix: String

  /// Reads an object's fields. `prefix`: the object's path in the body. `whole`: its name in faults if it has
  /// no path.
  package init(_ json: JSONValue, prefix: String = "", whole: String = "body") {
    self.prefix = prefix
    if json.kind != .object { faults.append((prefix.isEmpty ? whole : prefix, "Give a JSON object.")) }
    for field in json.fields {
      let name = String(decoding: field.name, as: UTF8.self)
      if values.updateValue((BodyFields.read(field.value), isKnown: false), forKey: name) != nil {
        fault(name, "It is given more than once.")
      }
    }
  }

  /// An object without fields.
  package init() { prefix = "" }

  private static func read(_ json: JSONValue) -> Value {
    switch json.kind {
    case .string: return .text(json.string ?? "")
    case .integer: return json.int64.map { .number($0) } ?? .other
    case .bool: return .flag(json.bool ?? false)
    case .null: return .other
    case .array:
      var texts: [String] = []
      for item in json.items {
        guard let text = item.string else { return .other }
        texts.append(text)
      }
      return .texts(texts)
    case .object, .double: return .other
    }
  }

  /// Notes what is wrong with a field.
  package mutating func fault(_ name: String, _ detail: String) {
    if faults.count < InvalidFields.most { faults.append((name, detail)) }
  }

  private mutating func value(_ name: String) -> Value {
    guard let index = values.index(forKey: name) else { return .none }
    values.values[index].isKnown = true
    return values.values[index].value
  }

  /// Declares a field whose value the caller reads itself.
  package mutating func known(_ name: String) { values[name]?.isKnown = true }

  /// A text; nil if the field is missing.
  package mutating func text(_ name: String) -> String? {
    switch value(name) {
    case .text(let text): return text
    case .none: return nil
    default:
      fault(name, "Give a text.")
      return nil
    }
  }

  /// A whole number within a range.
  package mutating func number(_ name: String, _ range: ClosedRange<Int64>) -> Int64? {
    switch value(name) {
    case .number(let number) where range.contains(number): return number
    case .none: return nil
    default:
      fault(name, "Give a whole number, \(range.lowerBound) to \(range.upperBound).")
      return nil
    }
  }

  /// `true` or `false`.
  package mutating func flag(_ name: String, default fallback: Bool = false) -> Bool {
    switch value(name) {
    case .flag(let flag): return flag
    case .none: return fallback
    default:
      fault(name, "Give true or false.")
      return fallback
    }
  }

  /// Texts in an array; empty if the field is missing.
  package mutating func list(_ name: String, atMost most: Int = 1000) -> [String] {
    switch value(name) {
    case .texts(let texts) where texts.count <= most: return texts
    case .none: return []
    default:
      fault(name, "Give an array of texts, at most \(most).")
      return []
    }
  }

  /// One of a closed list of words.
  package mutating func word<Word: RawRepresentable & CaseIterable>(_ name: String, _: Word.Type) -> Word?
  where Word.RawValue == String {
    guard let text = text(name) else { return nil }
    if let word = Word(rawValue: text) { return word }
    fault(name, "Give one of \(Word.allCases.map(\.rawValue).joined(separator: ", ")).")
    return nil
  }

  /// A moment or a position, as text: a number, its text, or the text of a position.
  package mutating func position(_ name: String) -> String? {
    switch value(name) {
    case .text(let text): return text
    case .number(let number): return String(number)
    case .none: return nil
    default:
      fault(name, "Give a time in ms since 1970, a position, or latest.")
      return nil
    }
  }

  /// Throws if there are faults. A field that was never read is an unknown field.
  package func end() throws(InvalidFields) {
    let room = InvalidFields.most - faults.count
    let unknown = values.filter { !$0.value.isKnown }.keys.sorted().prefix(room).map {
      (field: $0, detail: "There is no such field.")
    }
    let all = (faults + unknown).map {
      (field: prefix.isEmpty ? $0.field : prefix + "." + $0.field, $0.detail)
    }
    guard all.isEmpty else { throw InvalidFields(faults: all) }
  }
}
