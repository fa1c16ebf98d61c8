import Glibc
import JSON
import Platform

/// A signed statement of the caller's name and rights: the token in `Authorization: Bearer …`.
///
/// The format is a JSON Web Token (RFC 7519) in its compact form, signed HS256 (RFC 7515, RFC 7518):
///
///     base64url(header) "." base64url(claims) "." base64url(HMAC-SHA256(secret, header "." claims))
///
/// - header: `alg` must be `HS256`; `typ`, where present, must be `JWT`; `crit` is refused, because this
/// service knows no extensions; `kid` is ignored, because each secret is tried.
/// - claims: `sub` the user (a text of 1 to 80 characters), `exp` and, where present, `nbf` seconds since
/// 1970 as whole numbers, `scope` words separated by spaces (`chat`, `admin`). All but `nbf` must be there.
/// Other claims are ignored.
///
/// The signature is checked before the header and the claims are parsed.
package struct BearerToken: Sendable, Equatable {
  /// The id of the user that the token names.
  package var user: String
  /// What the token allows.
  package var scopes: Scopes
  /// When it ends, in seconds since 1970.
  package var expires: Int64

  /// Why a token is not accepted.
  package enum Refusal: Error, Equatable {
    /// It is not a token of this service.
    case invalid(StaticString)
    /// It is a token of this service, and it has expired.
    case expired

    package static func == (a: Refusal, b: Refusal) -> Bool {
      switch (a, b) {
      case (.expired, .expired): true
      case (.invalid(let a), .invalid(let b)): a.description == b.description
      default: false
      }
    }
  }

  /// The longest token that is checked, in bytes; a longer one is invalid.
  package static let lengthLimit = 4096
  /// The longest user id, in Unicode code points, each of at most 4 bytes.
  package static let userLimit = 80

  /// A token for `user` that ends at `expires` (seconds since 1970).
  package init(user: String, scopes: Scopes, expires: Int64) {
    self.user = user
    self.scopes = scopes
    self.expires = expires
  }

  /// The token as text, signed with the first of `secrets`.
  package func signed(with secrets: SigningSecrets) -> String {
    var claims = JSONWriter()
    claims.beginObject()
    claims.field("sub", user)
    claims.field("exp", expires)
    claims.field("scope", scopes.words)
    claims.endObject()
    var text = ByteBuffer()
    let header: StaticString = "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"
    Base64URL.append(
      UnsafeRawBufferPointer(start: header.utf8Start, count: header.utf8CodeUnitCount), to: &text)
    text.append(".")
    Base64URL.append(claims.buffer.bytes, to: &text)
    let code = secrets.sign(text.bytes)
    text.append(".")
    code.withUnsafeBytes { Base64URL.append($0, to: &text) }
    return String(decoding: text.bytes, as: UTF8.self)
  }

  /// Parses `text` and checks it against `secrets` at `now` (seconds since 1970).
  package init(checking text: UnsafeRawBufferPointer, against secrets: SigningSecrets, now: Int64)
    throws(Refusal)
  {
    guard text.count <= Self.lengthLimit else { throw .invalid("it is too long") }
    guard
      let first = text.firstIndex(of: UInt8(ascii: ".")), let last = text.lastIndex(of: UInt8(ascii: ".")),
      first != last, !text[(first + 1)..<last].contains(UInt8(ascii: "."))
    else { throw .invalid("it does not have three parts") }
    guard
      let header = Base64URL.decode(UnsafeRawBufferPointer(rebasing: text[..<first])),
      let claims = Base64URL.decode(UnsafeRawBufferPointer(rebasing: text[(first + 1)..<last])),
      let code = Base64URL.decode(UnsafeRawBufferPointer(rebasing: text[(last + 1)...]))
    else { throw .invalid("a part is not base64url") }
    guard secrets.isSigned(UnsafeRawBufferPointer(rebasing: text[..<last]), with: code) else {
      throw .invalid("its signature is not of this service's secret with HS256")
    }
    try Self.checkHeader(header)
    self = try Self.read(claims: claims, now: now)
  }

  private static func checkHeader(_ header: [UInt8]) throws(Refusal) {
    let refusal = parsed(header) { header -> StaticString? in
      guard header.kind == .object else { return "its header is not an object" }
      guard header["alg"]?.string == "HS256" else { return "its alg is not HS256" }
      if let type = header["typ"], type.string?.uppercased() != "JWT" { return "its typ is not JWT" }
      return header["crit"] == nil ? nil : "its crit names an extension"
    }
    guard let refusal else { throw .invalid("its header is not JSON") }
    if let reason = refusal { throw .invalid(reason) }
  }

  private static func read(claims: [UInt8], now: Int64) throws(Refusal) -> BearerToken {
    let read = parsed(claims) { claims -> Result<BearerToken, Refusal> in
      guard let user = claims["sub"]?.string, !user.isEmpty, user.unicodeScalars.count <= userLimit else {
        return .failure(.invalid("its sub is not a user id"))
      }
      guard let expires = claims["exp"]?.int64 else {
        return .failure(.invalid("its exp is not a whole number"))
      }
      guard let scope = claims["scope"]?.string else { return .failure(.invalid("its scope is not a text")) }
      if let start = claims["nbf"] {
        guard let start = start.int64 else { return .failure(.invalid("its nbf is not a whole number")) }
        guard start <= now else { return .failure(.invalid("its nbf is in the future")) }
      }
      guard expires > now else { return .failure(.expired) }
      return .success(BearerToken(user: user, scopes: Scopes(words: scope), expires: expires))
    }
    guard let read else { throw .invalid("its claims are not JSON") }
    return try read.get()
  }

  /// Parses `bytes` as JSON and passes the value to `body`. Nil: `bytes` are not JSON.
  private static func parsed<Found>(_ bytes: [UInt8], _ body: (JSONValue) -> Found) -> Found? {
    bytes.withUnsafeBytes { JSONParser().read($0, body) }
  }
}
