import ChatModel
import MicroHTTP

/// The query's parameters, read strictly: one that nobody knows, one that comes twice and one of a wrong type
/// are a 400 that names it.
struct Parameters {
  private var values: [String: String] = [:]
  private var asked: Set<String> = []
  private var faults: [Problem.FieldError] = []

  /// Takes the query apart. `ticket` and its like are parameters like others.
  init(_ request: Request) {
    for item in request.query {
      let name = item.name
      if values.updateValue(item.value, forKey: name) != nil {
        faults.append(Problem.FieldError(name, "It is given more than once."))
      }
    }
  }

  /// Notes what is wrong with a parameter.
  mutating func fault(_ name: String, _ detail: String) { faults.append(Problem.FieldError(name, detail)) }

  /// The text of a parameter, nil where it was not given.
  mutating func text(_ name: String) -> String? {
    asked.insert(name)
    return values[name]
  }

  /// The text of a parameter that is not empty and not too long.
  mutating func name(_ name: String, atMost characters: Int = 200) -> String? {
    guard let text = text(name) else { return nil }
    guard !text.isEmpty, text.count <= characters else {
      fault(name, "Give 1 to \(characters) characters.")
      return nil
    }
    return text
  }

  /// A number within a range.
  mutating func number(_ name: String, _ range: ClosedRange<Int64>) -> Int64? {
    guard let text = text(name) else { return nil }
    guard let number = Parameters.number(text), range.contains(number) else {
      let bounds =
        range.upperBound == .max
        ? "\(range.lowerBound) or more" : "\(range.lowerBound) to \(range.upperBound)"
      fault(name, "Give a whole number, \(bounds).")
      return nil
    }
    return number
  }

  /// `true` or `false`.
  mutating func flag(_ name: String, default fallback: Bool = false) -> Bool {
    switch text(name) {
    case nil: return fallback
    case "true": return true
    case "false": return false
    default:
      fault(name, "Give true or false.")
      return fallback
    }
  }

  /// One of a closed list of words.
  mutating func word<Word: RawRepresentable & CaseIterable>(_ name: String, _: Word.Type) -> Word?
  where Word.RawValue == String {
    guard let text = text(name) else { return nil }
    if let word = Word(rawValue: text) { return word }
    fault(name, "Give one of \(Word.allCases.map(\.rawValue).joined(separator: ", ")).")
    return nil
  }

  /// Values with commas between them; given and empty is one empty value.
  mutating func list(_ name: String) -> [String] {
    guard let text = text(name) else { return [] }
    return text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
  }

  /// Whether a parameter was given.
  func isGiven(_ name: String) -> Bool { values[name] != nil }

  /// Ends the reading: what was never asked for is nothing this operation knows.
  func end() throws {
    let unknown = values.keys.filter { !asked.contains($0) }.sorted().map {
      Problem.FieldError(
        $0, asked.isEmpty ? "This operation takes no parameters." : "There is no such parameter.")
    }
    let all = faults + unknown
    guard all.isEmpty else { throw Problem.invalid(all) }
  }

  /// Digits with an optional minus.
  static func number(_ text: String) -> Int64? {
    let digits = text.utf8.first == UInt8(ascii: "-") ? text.utf8.dropFirst() : text.utf8[...]
    guard !digits.isEmpty, digits.allSatisfy({ (48...57).contains($0) }) else { return nil }
    return Int64(text)
  }
}

extension Problem {
  /// Fields of a request are at fault.
  static func invalid(_ errors: [FieldError]) -> Problem {
    let names = errors.map(\.field).joined(separator: ", ")
    return Problem(400, "invalid_request", detail: "Correct these and ask again: \(names).", errors: errors)
  }

  /// One field of a request is at fault.
  static func invalid(_ field: String, _ detail: String) -> Problem { invalid([FieldError(field, detail)]) }

  /// For this user there is no such channel (B1).
  static var channelNotFound: Problem {
    Problem(
      404, "channel_not_found", detail: "There is no such channel, or you are not in it: list your channels.")
  }

  /// The user is invited and has not joined (B1).
  static var notJoined: Problem {
    Problem(403, "not_joined", detail: "You are invited and have not joined: join upstream to read messages.")
  }

  /// There is no such message for this user.
  static var messageNotFound: Problem {
    Problem(404, "message_not_found", detail: "There is no such message in this channel.")
  }
}
