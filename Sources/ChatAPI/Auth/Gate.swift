import ChatModel
import Glibc
import MicroHTTP
import Platform

/// Lets requests in: whoever asks is named by a token, or, with `--auth off`, by the header `Perch-User`.
///
/// A token that was checked is remembered with its connection: the next request compares bytes, not codes.
/// Its end and the secrets' generation are looked at every time.
package final class Gate: Sendable {
  /// How callers are known.
  package enum Mode: Sendable {
    /// By signed tokens.
    case tokens(Keyring)
    /// By `Perch-User`, on loopback addresses alone.
    case named
  }

  private let mode: Mode
  private let clock: Clock

  /// A gate.
  package init(_ mode: Mode, clock: Clock = .system) {
    self.mode = mode
    self.clock = clock
  }

  /// A token as it was on this connection's last request.
  private final class Remembered {
    let header: [UInt8]
    let caller: Caller
    let generation: UInt64
    init(_ header: [UInt8], _ caller: Caller, _ generation: UInt64) {
      self.header = header
      self.caller = caller
      self.generation = generation
    }
  }

  /// Who asks, with the scope that the route wants; a 401 or 403 otherwise.
  package func caller(of request: Request, scope: Scopes = .chat) throws -> Caller {
    let caller =
      switch mode {
      case .tokens(let keyring): try bearer(request, keyring)
      case .named: try named(request)
      }
    request.user = caller.user.text
    guard caller.scopes.isSuperset(of: scope) else {
      throw Problem(
        403, "insufficient_scope", detail: "Use a token whose scope has \(scope.words).",
        headers: [("WWW-Authenticate", "Bearer error=\"insufficient_scope\", scope=\"\(scope.words)\"")])
    }
    return caller
  }

  private func bearer(_ request: Request, _ keyring: Keyring) throws -> Caller {
    if request.header("Perch-User") != nil {
      throw Problem(
        400, "user_header_refused", detail: "Perch-User is only heard with --auth off: send a token instead.")
    }
    guard let header = request.header("Authorization") else { throw Gate.unauthorized("Send one.", nil) }
    let (secrets, generation) = keyring.now
    let now = clock.wallMilliseconds() / 1000
    if let known = request.attachment as? Remembered, known.generation == generation,
      known.caller.expires > now, known.header.count == header.count,
      header.isEmpty || memcmp(known.header, header.baseAddress!, header.count) == 0
    {
      return known.caller
    }
    let scheme = "bearer "
    guard header.count > scheme.utf8.count,
      zip(header, scheme.utf8).allSatisfy({ $0 == $1 || $0 | 0x20 == $1 })
    else { throw Gate.unauthorized("Its scheme is Bearer.", "invalid_request") }
    let text = UnsafeRawBufferPointer(rebasing: header[scheme.utf8.count...])
    do throws(BearerToken.Refusal) {
      let token = try BearerToken(checking: text, against: secrets, now: now)
      let caller = Caller(user: UserID(token.user), scopes: token.scopes, expires: token.expires)
      request.attachment = Remembered(Array(header), caller, generation)
      return caller
    } catch {
      switch error {
      case .expired: throw Gate.unauthorized("This one has expired: get a new one.", "invalid_token")
      case .invalid(let reason): throw Gate.unauthorized("This one is not good: \(reason).", "invalid_token")
      }
    }
  }

  private func named(_ request: Request) throws -> Caller {
    guard let name = request.headerText("Perch-User"), !name.isEmpty, name.count <= BearerToken.userLimit
    else {
      throw Problem(
        401, "unauthorized", detail: "Authentication is off: name the user with the header Perch-User.",
        headers: [("WWW-Authenticate", "Perch-User")])
    }
    return Caller(user: UserID(name), scopes: [.chat, .admin], expires: .max)
  }

  private static func unauthorized(_ detail: String, _ error: String?) -> Problem {
    Problem(
      401, "unauthorized", detail: "A bearer token is needed. " + detail,
      headers: [("WWW-Authenticate", "Bearer" + (error.map { " error=\"\($0)\"" } ?? ""))])
  }
}
