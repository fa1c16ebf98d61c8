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

  /// Whether a line's code contains `text`.
  func code(_ index: Int, contains text: String) -> Bool { code[index].contains(text) }
}

/// A fault that a check found.
struct Finding: CustomStringConvertible, Equatable {
  let path: String
  let line: Int
  let fault: String
  var description: String { "\(path):\(line): \(fault)" }
}

/// Blanks comments, the insides of texts, and patterns. It knows `//`, `/* */`, `"…"`, `"""…"""` and their raw
/// forms, and `#/…/#`, which is all that the checks need; code inside an interpolation is blanked with its
/// text.
private enum Masking {
  static func code(_ text: String) -> String {
    let bytes = Array(text.utf8)
    var result = bytes
    var offset = 0
    func starts(_ word: String) -> Bool { bytes[offset...].starts(with: word.utf8) }
    func blank(_ count: Int) {
      for index in offset..<min(offset + count, bytes.count) where bytes[index] != 10 { result[index] = 32 }
      offset += count
    }
    while offset < bytes.count {
      if starts("//") {
        while offset < bytes.count, bytes[offset] != 10 { blank(1) }
      } else if starts("/*") {
        while offset < bytes.count, !starts("*/") { blank(1) }
        blank(2)
      } else if starts("#/") {
        while offset < bytes.count, !starts("/#") { blank(1) }
        blank(2)
      } else if let fence = fence(bytes, offset) {
        offset += fence.opening
        while offset < bytes.count, !bytes[offset...].starts(with: fence.closing) {
          blank(fence.isRaw || bytes[offset] != 92 ? 1 : 2)
        }
        offset += fence.closing.count
      } else {
        offset += 1
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  /// The opening and the closing quotes of the text that begins here.
  private static func fence(_ bytes: [UInt8], _ offset: Int) -> (opening: Int, closing: [UInt8], isRaw: Bool)?
  {
    var hashes = 0
    while offset + hashes < bytes.count, bytes[offset + hashes] == 35 { hashes += 1 }
    let quote = offset + hashes
    guard quote < bytes.count, bytes[quote] == 34 else { return nil }
    let isLong = bytes[quote...].starts(with: [34, 34, 34])
    let quotes = [UInt8](repeating: 34, count: isLong ? 3 : 1)
    return (hashes + quotes.count, quotes + [UInt8](repeating: 35, count: hashes), hashes > 0)
  }
}
