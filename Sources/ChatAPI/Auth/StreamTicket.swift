import CSodium
import ChatModel
import Glibc
import Platform

/// A right to follow one path without an `Authorization` header, for the browser's EventSource, which cannot
/// set one.
///
/// As text: base64url of
///
///     issued (8 bytes, ms since 1970) ‖ expires (8 bytes, s since 1970) ‖ user id (UTF-8) ‖ code (32 bytes)
///
/// numbers big endian; the code is HMAC-SHA256, under the signing secrets, of the words `perch ticket`, a
/// zero byte, the path, a zero byte and everything before the code. The ticket does not contain the path: the
/// check takes the path of the request. A ticket must be used for the first time within 60 s, which
/// `UsedTickets` checks. It ends with the token it was made from, and after a day at the latest.
package struct StreamTicket: Sendable, Equatable {
  /// The user whose right the ticket proves.
  package let user: String
  /// When the ticket was made, in milliseconds since 1970.
  package let issued: Int64
  /// When the ticket ends, in seconds since 1970: never later than the token it was made from.
  package let expires: Int64
  /// The HMAC, set when the ticket was checked. `UsedTickets` stores tickets by it, because one ticket's text
  /// can be spelled in several ways.
  package private(set) var code: [UInt8] = []

  /// A ticket must be used for the first time within so many milliseconds after it was made.
  package static let firstUseMilliseconds: Int64 = 60_000

  /// A ticket for `user`.
  package init(user: String, issued: Int64, expires: Int64) {
    self.user = user
    self.issued = issued
    self.expires = expires
  }

  /// The ticket as text, good for `path` alone.
  package func signed(for path: String, with secrets: SigningSecrets) -> String {
    var content = ByteBuffer()
    content.append(bigEndian: issued)
    content.append(bigEndian: expires)
    content.append(user)
    let code = Self.message(path, content.bytes).withUnsafeBytes { secrets.sign($0) }
    code.withUnsafeBytes { content.append($0) }
    return Base64URL.encode(content.array)
  }

  /// Parses `text`. Nil: it is no ticket signed here for `path`, or its token has ended at `now` (seconds).
  package init?(checking text: String, for path: String, against secrets: SigningSecrets, now: Int64) {
    guard
      text.utf8.count <= 512, let bytes = Array(text.utf8).withUnsafeBytes(Base64URL.decode), bytes.count > 48
    else { return nil }
    let content = Array(bytes.dropLast(32))
    let isSigned = content.withUnsafeBytes { content in
      Self.message(path, content).withUnsafeBytes { secrets.isSigned($0, with: Array(bytes.suffix(32))) }
    }
    guard isSigned else { return nil }
    let numbers = content.withUnsafeBytes {
      (
        Int64(bigEndian: $0.loadUnaligned(fromByteOffset: 0, as: Int64.self)),
        Int64(bigEndian: $0.loadUnaligned(fromByteOffset: 8, as: Int64.self))
      )
    }
    guard numbers.1 > now else { return nil }
    self.init(
      user: String(decoding: content.dropFirst(16), as: UTF8.self), issued: numbers.0, expires: numbers.1)
    code = Array(bytes.suffix(32))
  }

  /// Whether both have the same user, time of issue and end.
  package static func == (a: StreamTicket, b: StreamTicket) -> Bool {
    a.user.hasSameBytes(as: b.user) && a.issued == b.issued && a.expires == b.expires
  }

  private static func message(_ path: String, _ content: UnsafeRawBufferPointer) -> [UInt8] {
    Array("perch ticket\0\(path)\0".utf8) + Array(content)
  }
}

extension ByteBuffer {
  /// Appends the eight bytes of `number`, the highest first.
  package mutating func append(bigEndian number: Int64) {
    withUnsafeBytes(of: number.bigEndian) { append($0) }
  }
}
