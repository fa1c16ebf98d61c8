import JSON
import Platform
import TestSupport

/// A JSON text taken apart, so that a test can replace any value in it.
indirect enum Tree {
  case object([(name: String, value: Tree)])
  case array([Tree])
  /// A text, number, `true`, `false` or `null` as written, or text that is no JSON.
  case leaf(String)

  init(_ text: String) throws { self = try JSONParser().parse(text) { Tree($0) } }

  private init(_ value: JSONValue) {
    switch value.kind {
    case .object:
      self = .object(value.fields.map { (String(decoding: $0.name, as: UTF8.self), Tree($0.value)) })
    case .array: self = .array(value.items.map { Tree($0) })
    default:
      var writer = JSONWriter()
      writer.value(value)
      self = .leaf(String(decoding: writer.finish().array, as: UTF8.self))
    }
  }

  var text: String {
    switch self {
    case .object(let fields):
      "{" + fields.map { "\"\($0.name)\":\($0.value.text)" }.joined(separator: ",") + "}"
    case .array(let items): "[" + items.map(\.text).joined(separator: ",") + "]"
    case .leaf(let text): text
    }
  }

  private var children: [Tree] {
    switch self {
    case .object(let fields): fields.map(\.value)
    case .array(let items): items
    case .leaf: []
    }
  }

  /// The path to each value from the root: the index of the child at each step.
  var paths: [[Int]] {
    [[]] + children.enumerated().flatMap { index, child in child.paths.map { [index] + $0 } }
  }

  /// The value at the end of a path. If the path leads nowhere, the last value on it.
  func at(_ path: some Collection<Int>) -> Tree {
    guard let step = path.first else { return self }
    switch self {
    case .object(let fields) where step < fields.count: return fields[step].value.at(path.dropFirst())
    case .array(let items) where step < items.count: return items[step].at(path.dropFirst())
    default: return self
    }
  }

  /// The names on the path to a value, for messages.
  func name(of path: some Collection<Int>) -> String {
    guard let step = path.first else { return "" }
    let rest = children[step].name(of: path.dropFirst())
    if case .object(let fields) = self { return ".\(fields[step].name)\(rest)" }
    return "[\(step)]\(rest)"
  }

  /// The same tree with another value at the end of a path; unchanged if the path leads nowhere.
  func replacing(_ path: some Collection<Int>, by change: (Tree) -> Tree) -> Tree {
    guard let step = path.first else { return change(self) }
    switch self {
    case .object(var fields) where step < fields.count:
      fields[step].value = fields[step].value.replacing(path.dropFirst(), by: change)
      return .object(fields)
    case .array(var items) where step < items.count:
      items[step] = items[step].replacing(path.dropFirst(), by: change)
      return .array(items)
    default: return self
    }
  }

  /// The path to each number.
  var numbers: [[Int]] {
    paths.filter { path in
      if case .leaf(let text) = at(path) { return text.first.map { $0 == "-" || $0.isNumber } ?? false }
      return false
    }
  }
}

extension Tree {
  /// Extreme numbers, and values that are no numbers.
  static let ends = [
    "-9223372036854775808", "-9223372036854775809", "-1", "0", "-0.0", "1.5", "9223372036854775807",
    "9223372036854775808", "18446744073709551615", "1e308", "-1e308", "1e18", "9999999999999",
    "10000000000000",
    "99999999999", "\"9223372036854775807\"", "\"9223372036854775808\"", "\"\"", "null", "true", "[]", "{}",
  ]

  /// The replacements of a value, beside `ends`.
  private static let oddities = [
    "\"\"", "\"\\u0000\"", "\"a\\u0000b\"", "\"\\n\"", "\"\u{202E}\"", "\"none\"", "\"joined\"", "false",
    "[[]]", "[null]", "{\"\":{}}", "[{}]", "\"ADMM\"", "\"channel\"", "nope", "", "\"\\ud800\"", "1e999",
    "184467440737095516160", "\"" + String(repeating: "x", count: 5000) + "\"",
    String(repeating: "[", count: 900) + String(repeating: "]", count: 900),
    String(repeating: "[", count: 3000) + String(repeating: "]", count: 3000),
    String(repeating: "{\"a\":", count: 400) + "0" + String(repeating: "}", count: 400),
  ]

  /// The same tree with one to three random changes at the ends of some of these paths.
  func mutated(at paths: [[Int]], _ random: inout SeededRandom) -> Tree {
    var tree = self
    for _ in 0...Int.random(in: 0..<3, using: &random) {
      let path = random.one(of: paths)
      let donor = at(random.one(of: paths))
      tree = tree.replacing(path) { $0.changed(donor, &random) }
    }
    return tree
  }

  private func changed(_ donor: Tree, _ random: inout SeededRandom) -> Tree {
    switch (self, Int.random(in: 0..<10, using: &random)) {
    case (_, 0), (_, 1), (.leaf, 2...): return .leaf(random.one(of: Tree.ends))
    case (_, 2), (_, 3): return .leaf(random.one(of: Tree.oddities))
    case (_, 4): return donor
    case (.object(var fields), let kind) where !fields.isEmpty:
      let index = Int.random(in: 0..<fields.count, using: &random)
      switch kind {
      case 5, 6: fields.remove(at: index)
      case 7: fields.append((fields[index].name, donor))
      case 8: fields[index].name = random.one(of: fields).name
      default: fields.shuffle(using: &random)
      }
      return .object(fields)
    case (.array(var items), let kind) where !items.isEmpty:
      let index = Int.random(in: 0..<items.count, using: &random)
      switch kind {
      case 5: items.remove(at: index)
      case 6: items.append(items[index])
      case 7: items.insert(donor, at: index)
      default: items.reverse()
      }
      return .array(items)
    default: return donor
    }
  }
}
