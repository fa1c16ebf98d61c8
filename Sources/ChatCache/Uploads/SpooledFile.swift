import CSodium

/// The name of a file in the spool: 32 hexadecimal digits that Perch made. No name of a client's is ever part
/// of a path.
package struct SpoolName: Hashable, Sendable {
  /// The name in the folder and in the table `upload`.
  package let text: String
  private static let digits = 32

  /// A name that was read from the folder or the table; nil: the text is no such name.
  package init?(_ text: String) {
    let isName =
      text.utf8.count == SpoolName.digits
      && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    guard isName else { return nil }
    self.text = text
  }

  /// A new random name.
  static func made() -> SpoolName {
    var bytes = [UInt8](repeating: 0, count: digits / 2)
    randombytes_buf(&bytes, bytes.count)
    let text = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    guard let name = SpoolName(text) else { preconditionFailure("hexadecimal digits are a name") }
    return name
  }
}

/// A complete file in the spool.
package struct SpooledFile: Hashable, Sendable {
  /// Its name in the spool.
  package let name: SpoolName
  /// Its size in bytes.
  package let size: Int
  /// The hash of its bytes (`FileHash`).
  package let hash: [UInt8]
}

/// A file that a client sent with a message.
package struct SentFile: Hashable, Sendable {
  /// The file in the spool.
  package let file: SpooledFile
  /// The client's name for the file, safe to show and to put into a header.
  package let name: String
  /// Its media type.
  package let mime: String

  /// A file with a name and a type.
  package init(_ file: SpooledFile, name: String, mime: String) {
    self.file = file
    self.name = name
    self.mime = mime
  }
}

/// Why bytes were not stored.
package enum SpoolError: Error, Hashable, Sendable {
  /// The spool is full, including the files still coming in.
  case full
  /// The disk did not store them, with this `errno`.
  case disk(Int32)
  /// Its request was known when it began to come, so its bytes were not stored, and is known no more.
  case forgotten
}
