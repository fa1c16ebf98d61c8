import ChatCollections
import ChatModel
import MicroHTTP
import Platform

/// The query's parameters, read strictly: an unknown parameter, a repeated one and one of a wrong type are
/// each answered with a 400 that names the parameter.
///
/// The values are views into the request, so they must be read before it parks. A route asks for each
/// parameter once, the most common ones first: when all given parameters have been read, no further search is
/// made.
struct Parameters {
  private struct Given {
    let item: QueryItem
    var isAsked = false
  }

  /// The most parameters that are read; no operation has as many.
  private static let most = 64

  private var given: [Given] = []
  private var unasked = 0
  private var isAsked = false
  private var faults: [Problem.FieldError] = []

  /// Splits the query into parameters, `ticket` too.
  init(_ request: Request) {
    if request.encodedQuery.isEmpty { return }
    given.reserveCapacity(8)
    for item in request.query {
      guard given.count + faults.count < Parameters.most else {
        faults = [Problem.FieldError("query", "Give at most \(Parameters.most) parameters.")]
        break
      }
      if given.contains(where: { $0.item.isNamed(as: item) }) {
        faults.append(Problem.FieldError(item.name, "It is given more than once."))
      } else {
        given.append(Given(item: item))
      }
    }
    unasked = given.count
  }

  /// Notes a parameter's fault.
  mutating func fault(_ name: StaticString, _ detail: String) {
    faults.append(Problem.FieldError("\(name)", detail))
  }

  private mutating func item(_ name: StaticString) -> QueryItem? {
    isAsked = true
    guard unasked > 0,
      let index = given.firstIndex(where: { !$0.isAsked && $0.item.isCalled(name) })
    else { return nil }
    given[index].isAsked = true
    unasked -= 1
    return given[index].item
  }

  /// The decoded text of a parameter; nil if it was not given.
  mutating func text(_ name: StaticString) -> String? { item(name)?.value }

  /// Calls `body` with the bytes of a parameter's value in the request; nil if it was not given.
  mutating func value<Result>(_ name: StaticString, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
    item(name)?.withValue(body)
  }

  /// The text of a parameter that is not empty and not too long.
  mutating func name(_ name: StaticString, atMost characters: Int = 200) -> String? {
    guard let text = text(name) else { return nil }
    guard !text.isEmpty, text.unicodeScalars.count <= characters else {
      fault(name, "Give 1 to \(characters) characters.")
      return nil
    }
    return text
  }

  /// A number within a range.
  mutating func number(_ name: StaticString, _ range: ClosedRange<Int64>) -> Int64? {
    guard let item = item(name) else { return nil }
    guard let number = item.integer ?? Parameters.number(item.value), range.contains(number) else {
      let bounds =
        range.upperBound == .max
        ? "\(range.lowerBound) or more" : "\(range.lowerBound) to \(range.upperBound)"
      fault(name, "Give a whole number, \(bounds).")
      return nil
    }
    return number
  }

  /// `true` or `false`.
  mutating func flag(_ name: StaticString, default fallback: Bool = false) -> Bool {
    guard let item = item(name) else { return fallback }
    if item.hasValue("true") { return true }
    if item.hasValue("false") { return false }
    fault(name, "Give true or false.")
    return fallback
  }

  /// One of a closed list of words.
  mutating func word<Word: RawRepresentable & CaseIterable>(_ name: StaticString, _: Word.Type) -> Word?
  where Word.RawValue == String {
    guard let text = text(name) else { return nil }
    if let word = Word(rawValue: text) { return word }
    fault(name, "Give one of \(Word.allCases.map(\.rawValue).joined(separator: ", ")).")
    return nil
  }

  /// Values with commas between them. An empty parameter is one empty value. An empty value is a fault unless
  /// `allowsEmpty`.
  mutating func list(_ name: StaticString, allowsEmpty: Bool = false) -> [String] {
    guard let text = text(name) else { return [] }
    // Split as bytes, so that a comma with a combining mark after it separates, too.
    let values = text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
      .map { String(decoding: $0, as: UTF8.self) }
    if !allowsEmpty, values.contains(where: \.isEmpty) {
      fault(name, "Give values with commas between them, none of them empty.")
    }
    return values
  }

  /// Whether a parameter was given.
  func isGiven(_ name: StaticString) -> Bool { given.contains { $0.item.isCalled(name) } }

  /// Called after the last parameter was read. A given parameter that the route never asked for is unknown.
  func end() throws {
    if unasked == 0, faults.isEmpty { return }
    let unknown = given.filter { !$0.isAsked }.map(\.item.name).sorted().map {
      Problem.FieldError($0, isAsked ? "There is no such parameter." : "This operation takes no parameters.")
    }
    throw Problem.invalid(faults + unknown)
  }

  /// The number that `text` writes in digits, with an optional minus.
  static func number(_ text: String) -> Int64? {
    var text = text
    return text.withUTF8 { DecimalText.read(UnsafeRawBufferPointer($0)) }
  }
}

extension Problem {
  /// Fields of a request are at fault.
  static func invalid(_ errors: [FieldError]) -> Problem {
    let told = errors.prefix(InvalidFields.most).map { FieldError(shortened($0.field), $0.detail) }
    let names = told.map(\.field).joined(separator: ", ")
    return Problem(400, "invalid_request", detail: "Correct these and ask again: \(names).", errors: told)
  }

  /// The first 100 characters of a field's name: the client chose it, and it may be as long as the request.
  private static func shortened(_ name: String) -> String {
    let most = 100
    guard
      let end = name.unicodeScalars.index(
        name.startIndex, offsetBy: most, limitedBy: name.endIndex), end < name.endIndex
    else { return name }
    return name[..<end] + "…"
  }

  /// One field of a request is at fault.
  static func invalid(_ field: String, _ detail: String) -> Problem { invalid([FieldError(field, detail)]) }

  /// The problem of a channel that the user does not see (B1).
  static var channelNotFound: Problem {
    Problem(
      404, "channel_not_found", detail: "There is no such channel, or you are not in it: list your channels.")
  }

  /// The user is invited and has not joined (B1).
  static var notJoined: Problem {
    Problem(403, "not_joined", detail: "You are invited and have not joined: join upstream to read messages.")
  }

  /// The problem of a message that the user does not see.
  static var messageNotFound: Problem {
    Problem(404, "message_not_found", detail: "There is no such message in this channel.")
  }
}
