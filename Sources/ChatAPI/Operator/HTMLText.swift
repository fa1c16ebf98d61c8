import JSON
import Platform

/// Makes HTML for the service's own pages.
enum HTMLText {
  /// Text with HTML's special characters escaped.
  static func escaped(_ text: String) -> String {
    var out = ""
    for character in text {
      switch character {
      case "&": out += "&amp;"
      case "<": out += "&lt;"
      case ">": out += "&gt;"
      case "\"": out += "&quot;"
      default: out.append(character)
      }
    }
    return out
  }

  /// The text as HTML. What stands between backquotes becomes a `<code>` element.
  static func inline(_ text: String) -> String {
    var out = ""
    for (index, part) in text.split(separator: "`", omittingEmptySubsequences: false).enumerated() {
      let escaped = escaped(String(part))
      out += index % 2 == 1 ? "<code>\(escaped)</code>" : escaped
    }
    return out
  }

  /// A JSON value in lines: one for each member and item.
  static func json(_ value: JSONValue) -> String {
    var writer = JSONWriter()
    writer.value(value)
    let text = writer.finish()
    return lines(of: String(decoding: text.bytes, as: UTF8.self))
  }

  /// JSON without white space between its values, in lines.
  static func lines(of json: String) -> String {
    var out = ""
    var depth = 0
    // Whether nothing was written yet of the object or array that began last.
    var isBegun = false
    var isText = false
    var isEscaped = false
    func line() -> String { "\n" + String(repeating: "  ", count: depth) }
    for character in json {
      if isText {
        out.append(character)
        isText = character != "\"" || isEscaped
        isEscaped = character == "\\" && !isEscaped
        continue
      }
      let isEnd = character == "}" || character == "]"
      if isEnd { depth -= 1 }
      if isBegun != isEnd { out += line() }
      isBegun = character == "{" || character == "["
      if isBegun { depth += 1 }
      isText = character == "\""
      out.append(character)
      if character == "," { out += line() }
      if character == ":" { out += " " }
    }
    return out
  }
}
