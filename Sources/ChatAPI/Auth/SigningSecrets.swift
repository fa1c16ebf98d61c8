import CSodium
import Glibc
import Platform

/// The secrets that sign and check tokens. The first one signs; a token signed with any of them is accepted.
///
/// As text: one secret a line, at most two lines, each of 32 to 256 characters without spaces; empty lines
/// and lines that begin with `#` are ignored. The characters themselves are the key, so any JWT library can
/// sign with a line of the file. To rotate: put the new secret above the old one, reread, wait until the old
/// tokens have expired, remove the lower line, reread.
package struct SigningSecrets: Sendable, Equatable {
  /// Why a text holds no valid secrets. The description does not show the text.
  package struct Malformed: Error, CustomStringConvertible, Equatable {
    /// The rule that the text breaks.
    package let description: String
  }

  /// How long one secret may be, in bytes. HS256 asks for at least 256 bits.
  package static let length = 32...256

  private let keys: [[UInt8]]

  /// One secret, for tests and for keys made by the caller.
  package init(_ secret: String) throws { try self.init(text: secret) }

  /// The secrets of a secret file's text.
  package init(text: String) throws {
    var keys: [[UInt8]] = []
    for line in text.split(whereSeparator: \.isNewline) {
      let secret = line.utf8.drop { $0 == 0x20 || $0 == 0x09 }.reversed().drop { $0 == 0x20 || $0 == 0x09 }
        .reversed()
      if secret.isEmpty || secret.first == UInt8(ascii: "#") { continue }
      guard Self.length.contains(secret.count), !secret.contains(where: { $0 <= 0x20 || $0 == 0x7F }) else {
        throw Malformed(description: "a secret has 32 to 256 characters and no space")
      }
      keys.append(Array(secret))
    }
    guard (1...2).contains(keys.count) else {
      throw Malformed(description: "one or two secrets are wanted, a line each; found \(keys.count)")
    }
    self.keys = keys
  }

  private init(keys: [[UInt8]]) { self.keys = keys }

  /// A new random secret, stored in no file.
  package static func fresh() -> SigningSecrets { SigningSecrets(keys: [Array(makeLine().utf8)]) }

  /// A fresh secret of 256 random bits, as the text of a secret file.
  package static func makeText() -> String { makeLine() + "\n" }

  /// A new secret: 256 random bits in 43 base64url characters, so it needs no quoting in a shell or a file.
  package static func makeLine() -> String {
    var random = [UInt8](repeating: 0, count: 32)
    randombytes_buf(&random, random.count)
    return Base64URL.encode(random)
  }

  /// The HMAC of `message` under the first secret.
  package func sign(_ message: UnsafeRawBufferPointer) -> [UInt8] { MessageCode.of(message, under: keys[0]) }

  /// Whether `code` is the HMAC of `message` under one of the secrets. The comparison takes the same time at
  /// whatever byte the codes differ.
  package func isSigned(_ message: UnsafeRawBufferPointer, with code: [UInt8]) -> Bool {
    var isGood = false
    for key in keys
    where code.withUnsafeBytes({ MessageCode.isSame(MessageCode.of(message, under: key), $0) }) {
      isGood = true
    }
    return isGood
  }
}
