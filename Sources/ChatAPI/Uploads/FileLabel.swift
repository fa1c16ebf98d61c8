import Platform

/// A file's name and media type as the client gave them, made safe to store, show and send: a name is never a
/// path and never breaks a header line.
enum FileLabel {
  /// The media type of a file whose type is unknown.
  static let anyType = "application/octet-stream"

  /// A name without the folders before it and without control characters.
  static func name(_ given: String) -> String {
    let last = given.split { $0 == "/" || $0 == "\\" }.last.map(String.init) ?? ""
    let clean = String(String.UnicodeScalarView(last.unicodeScalars.filter { !isControl($0) }))
    let name = String(clean.prefix(UploadLimit.nameCharacters))
    return name.isEmpty || name == "." || name == ".." ? "file" : name
  }

  /// A media type without its parameters; `anyType` if the text is not a media type.
  static func type(_ given: String) -> String {
    let type = given.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }.lowercased()
    let halves = type.split(separator: "/", omittingEmptySubsequences: false)
    let isType =
      halves.count == 2 && type.utf8.count <= UploadLimit.typeCharacters
      && halves.allSatisfy { !$0.isEmpty && $0.utf8.allSatisfy(isToken) }
    return isType ? type : anyType
  }

  /// Whether a browser may show a file of this type; it saves all others. No shown type can run a script.
  static func isShown(_ type: String) -> Bool {
    [
      "image/png", "image/jpeg", "image/gif", "image/webp", "video/mp4", "audio/mpeg", "application/pdf",
      "text/plain",
    ].contains(type)
  }

  /// The value of `Content-Disposition`.
  static func disposition(_ name: String, type: String) -> String {
    var encoded = ""
    var plain = ""
    for scalar in name.unicodeScalars where !isControl(scalar) {
      let bytes = PercentEncoding.encode(String(scalar))
      guard plain.utf8.count < UploadLimit.headerNameBytes,
        encoded.utf8.count + bytes.utf8.count
          < 3 * UploadLimit.headerNameBytes
      else { break }
      encoded += bytes
      plain += scalar.isASCII && scalar != "\"" && scalar != "\\" ? String(scalar) : "_"
    }
    return "\(isShown(type) ? "inline" : "attachment"); filename=\"\(plain)\"; filename*=UTF-8''\(encoded)"
  }

  /// Whether the character is a control or format character. The joiners U+200C and U+200D are allowed,
  /// because scripts and emoji need them; other format characters reverse or hide the text after them.
  private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
    if scalar == "\u{200C}" || scalar == "\u{200D}" { return false }
    return switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: true
    default: false
    }
  }

  private static func isToken(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    default: "!#$&-^_.+".utf8.contains(byte)
    }
  }
}
