import MicroHTTP

/// The values a client sent. Each is read with the type that it must have.
struct Arguments {
  private var path: [String: String]
  private var query: [String: String] = [:]
  var body: Value
  var parts: [MultipartPart] = []
  /// The bytes of the form's file, whose request removes the file at its end; nil: the file is still at the
  /// part's path.
  private(set) var heldFile: [UInt8]?
  /// Whether words must be spelled exactly as documented.
  var isStrict = false
  /// Lists lack messages from this moment on (ms); nil: they lack none.
  var hiddenSince: Int64?
  /// The random order of messages of one millisecond; nil: their ids order them.
  var tieDice: UInt64?

  init(path: [String: String], query: [String: String], body: Value, parts: [MultipartPart]) {
    self.path = path
    self.query = query
    self.body = body
    self.parts = parts
  }

  /// A copy for work that is done after the request: the form's file is held in memory.
  func holdingFile() throws -> Arguments {
    var held = self
    held.heldFile = try parts.first { $0.path != nil }.map(Uploads.contents)
    return held
  }

  /// A path parameter; the templates have every one that is asked for.
  func path(_ name: String) -> String { path[name] ?? "" }

  /// A field of the body, else a part of the form, else the query's item as text.
  func value(_ name: String) -> Value? {
    if let value = body[name], value != .null { return value }
    if let part = parts.first(where: { $0.name == name && $0.path == nil }) {
      let text = String(decoding: part.value, as: UTF8.self)
      // In a form, lists and objects are written as JSON. Anything else is a text.
      if text.hasPrefix("[") || text.hasPrefix("{"), case let value = Value(stored: text), value != .null {
        return value
      }
      return .string(text)
    }
    return query[name].map(Value.string)
  }

  private func isFromBody(_ name: String) -> Bool { body[name] != nil }

  func text(_ name: String) throws -> String? {
    guard let value = value(name) else { return nil }
    guard case .string(let text) = value else { throw Refusal(400100, "\"\(name)\" must be a string.") }
    return text
  }

  func neededText(_ name: String) throws -> String {
    guard let text = try text(name), !text.isEmpty else { throw Refusal.missing(name) }
    return text
  }

  /// The id of something new: not empty, at most `limit` bytes, without spaces at its ends and without
  /// control characters.
  func newID(_ name: String, limit: Int) throws -> String {
    let id = try neededText(name)
    guard id.utf8.count <= limit else { throw Refusal.tooLong(name) }
    guard id.unicodeScalars.allSatisfy({ $0.value >= 32 && $0.value != 127 }), id.first != " ", id.last != " "
    else { throw Refusal(400151, "\"\(name)\" holds a character that is not allowed.") }
    return id
  }

  /// One of `choices`, or `fallback`. The case of letters counts only if `isStrict`.
  func choice(_ name: String, _ choices: [String], default fallback: String) throws -> String {
    if isStrict, let text = try text(name), !text.isEmpty {
      guard choices.contains(where: { $0.hasSameBytes(as: text) }) else { throw Refusal.invalid(name) }
      return text
    }
    guard let text = try text(name)?.lowercased(), !text.isEmpty else { return fallback }
    guard let choice = choices.first(where: { $0.lowercased() == text }) else { throw Refusal.invalid(name) }
    return choice
  }

  func number(_ name: String) throws -> Int64? {
    switch value(name) {
    case nil: return nil
    case .integer(let number)?: return number
    case .string(let text)? where !isFromBody(name):
      guard let number = Int64(text) else { throw Refusal(400101, "\"\(name)\" must be a number.") }
      return number
    default: throw Refusal(400101, "\"\(name)\" must be a number.")
    }
  }

  /// A number within `range`, or `fallback`.
  func number(_ name: String, _ range: ClosedRange<Int64>, default fallback: Int64) throws -> Int64 {
    guard let number = try number(name) else { return fallback }
    guard range.contains(number) else { throw Refusal.range(name) }
    return number
  }

  /// A flag; in queries `true`, `1`, `false` or `0`. The case of letters counts only if `isStrict`.
  func flag(_ name: String, default fallback: Bool = false) throws -> Bool {
    switch value(name) {
    case nil: return fallback
    case .bool(let flag)?: return flag
    case .string(let text)? where !isFromBody(name):
      switch isStrict ? text : text.lowercased() {
      case "true", "1": return true
      case "false", "0": return false
      default: throw Refusal(400104, "\"\(name)\" must be a boolean.")
      }
    default: throw Refusal(400104, "\"\(name)\" must be a boolean.")
    }
  }

  /// A list of strings; in queries with commas between.
  func texts(_ name: String) throws -> [String]? {
    switch value(name) {
    case nil: return nil
    case .array(let items)?:
      guard items.allSatisfy({ $0.string != nil }) else {
        throw Refusal(400100, "\"\(name)\" holds strings.")
      }
      return items.compactMap(\.string)
    case .string(let text)? where !isFromBody(name): return text.split(separator: ",").map(String.init)
    default: throw Refusal(400102, "\"\(name)\" must be a list.")
    }
  }

  func neededTexts(_ name: String) throws -> [String] {
    guard let texts = try texts(name), !texts.isEmpty else { throw Refusal.missing(name) }
    return texts
  }

  func object(_ name: String) throws -> [String: Value]? {
    guard let value = value(name) else { return nil }
    guard case .object(let fields) = value else { throw Refusal(400103, "\"\(name)\" must be an object.") }
    return fields
  }

  func neededObject(_ name: String) throws -> [String: Value] {
    guard let fields = try object(name) else { throw Refusal.missing(name) }
    return fields
  }

  /// Halves the limits that the client asked for, like a server that cuts pages short.
  mutating func halveLimits(_ path: String) {
    let defaults = [
      ("limit", path.hasSuffix("/changelogs") ? 100 : 10), ("prev_limit", 15), ("next_limit", 15),
    ]
    for (name, fallback) in defaults {
      let wanted = query[name].map { Int($0) } ?? fallback
      if let wanted, wanted > 0 { query[name] = "\((wanted + 1) / 2)" }
    }
  }
}
