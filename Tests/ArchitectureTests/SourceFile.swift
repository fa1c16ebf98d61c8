/// A Swift file as the checks see it: its lines, and the same lines with comments and texts blanked out.
struct SourceFile {
  let path: String
  /// The lines as they are.
  let lines: [String]
  /// The lines without the insides of texts and without comments, so that words and braces in them do not
  /// count.
  let code: [String]

  init(path: String, text: String) {
    self.path = path
    lines = SourceFile.split(text)
    code = SourceFile.split(Masking.code(text))
  }

  /// The target it belongs to: the folder below Sources.
  var target: String { path.split(separator: "/").dropFirst().first.map(String.init) ?? "" }

  private static func split(_ text: String) -> [String] {
    var lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    if lines.last == "" { lines.removeLast() }
    return lines
  }

  /// Whether there is a comment in a line or in the one above.
  func isExplained(_ index: Int) -> Bool {
    lines[index].contains("//") || (index > 0 && lines[index - 1].contains("//"))
  }

  /// Whether a word stands in code as a word of its own or as the end of a name.
  func code(_ index: Int, contains text: String) -> Bool { code[index].contains(text) }
}

/// Something a check does not accept.
struct Finding: CustomStringConvertible, Equatable {
  let path: String
  let line: Int
  let what: String
  var description: String { "\(path):\(line): \(what)" }
}

/// Blanks comments and the insides of texts. It knows `//`, `/* */`, `"…"`, `"""…"""` and their raw forms,
/// which is all that the checks need; code inside an interpolation is blanked with its text.
private enum Masking {
  static func code(_ text: String) -> String {
    let bytes = Array(text.utf8)
    var result = bytes
    var place = 0
    func starts(_ word: String) -> Bool { bytes[place...].starts(with: word.utf8) }
    func blank(_ count: Int) {
      for index in place..<min(place + count, bytes.count) where bytes[index] != 10 { result[index] = 32 }
      place += count
    }
    while place < bytes.count {
      if starts("//") {
        while place < bytes.count, bytes[place] != 10 { blank(1) }
      } else if starts("/*") {
        while place < bytes.count, !starts("*/") { blank(1) }
        blank(2)
      } else if let fence = fence(bytes, place) {
        place += fence.opening
        while place < bytes.count, !bytes[place...].starts(with: fence.closing) {
          blank(fence.isRaw || bytes[place] != 92 ? 1 : 2)
        }
        place += fence.closing.count
      } else {
        place += 1
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  /// How the text that begins here begins and ends.
  private static func fence(_ bytes: [UInt8], _ place: Int) -> (opening: Int, closing: [UInt8], isRaw: Bool)?
  {
    var hashes = 0
    while place + hashes < bytes.count, bytes[place + hashes] == 35 { hashes += 1 }
    let quote = place + hashes
    guard quote < bytes.count, bytes[quote] == 34 else { return nil }
    let isLong = bytes[quote...].starts(with: [34, 34, 34])
    let quotes = [UInt8](repeating: 34, count: isLong ? 3 : 1)
    return (hashes + quotes.count, quotes + [UInt8](repeating: 35, count: hashes), hashes > 0)
  }
}
