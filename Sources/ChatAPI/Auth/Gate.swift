import ChatCache
import ChatModel
import Glibc
import MicroHTTP
import Platform

/// Names the caller of each request, by its token or, with `--auth off`, by the header `Perch-User`.
///
/// The gate keeps a checked token with its connection. The connection's next request then compares the
/// token's bytes instead of computing its HMAC. Each request still compares the token's end and the secrets'
/// generation.
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
  /// The secrets that sign tickets with `--auth off`.
  private let ticketSecrets: SigningSecrets
  /// Tickets that were used in time: they may be used again (B51).
  let tickets = UsedTickets()
  /// Checked tokens by the hash of their bytes: connections with the same token share one object.
  private let checked = Guarded<[Int: Remembered]>([:])
  private static let mostChecked = 4096

  /// A gate. `ticketSecrets` sign the tickets with `--auth off`. Tickets stay valid after a restart only if
  /// these secrets are the same.
  package init(_ mode: Mode, ticketSecrets: SigningSecrets = .fresh(), clock: Clock = .system) {
    self.mode = mode
    self.ticketSecrets = ticketSecrets
    self.clock = clock
  }

  /// The header that names the caller: answers differ by it.
  var vary: StaticString { if case .tokens = mode { "Authorization" } else { "Perch-User" } }

  /// A checked token: the `Authorization` header's bytes, and the caller that it names.
  private final class Remembered: Sendable {
    let header: [UInt8]
    let caller: Caller
    init(_ header: [UInt8], _ caller: Caller) {
      self.header = header
      self.caller = caller
    }
  }

  /// The caller of the request. Throws a 401 without a valid token or ticket, a 403 without the route's
  /// scope.
  package func caller(of request: Request, scope: Scopes = .chat) throws -> Caller {
    let caller =
      if let ticket = Gate.ticket(in: request) {
        try follower(ticket, request)
      } else {
        try header(request)
      }
    request.user = caller.user.text
    guard caller.scopes.isSuperset(of: scope) else {
      throw Problem(
        403, "insufficient_scope", detail: "Use a token whose scope has \(scope.words).",
        headers: [("WWW-Authenticate", "Bearer error=\"insufficient_scope\", scope=\"\(scope.words)\"")])
    }
    return caller
  }

  private func header(_ request: Request) throws -> Caller {
    switch mode {
    case .tokens(let keyring): try bearer(request, keyring)
    case .named: try named(request)
    }
  }

  /// The secrets that sign tickets, and their generation.
  private var signing: (secrets: SigningSecrets, generation: UInt64) {
    if case .tokens(let keyring) = mode { keyring.now } else { (ticketSecrets, 0) }
  }

  /// Whether the caller is still admitted: the token or ticket has not ended, and the secrets have not
  /// changed since it was checked.
  func admitsStill(_ caller: Caller) -> Bool {
    if case .tokens(let keyring) = mode, keyring.generation != caller.generation { return false }
    return caller.expires > clock.wallMilliseconds() / 1000
  }

  /// A ticket for polling `path` (see `EventRoutes.followed`) as `caller`, and when it ends (s since 1970).
  func ticket(for path: String, _ caller: Caller) -> (ticket: String, expires: Int64) {
    let now = clock.wallMilliseconds()
    // A ticket ends after a day at the latest: with `--auth off` the caller's right never ends.
    let expires = min(caller.expires, now / 1000 + 86_400)
    let ticket = StreamTicket(user: caller.user.text, issued: now, expires: expires)
    return (ticket.signed(for: path, with: signing.secrets), expires)
  }

  /// The value of the query parameter `ticket`, if the request polls a view or the user's events; nil
  /// otherwise.
  private static func ticket(in request: Request) -> String? {
    guard request.method == .get, mayHoldTicket(request.encodedQuery) else { return nil }
    for item in request.query where item.isNamed("ticket") {
      return EventRoutes.followed(request) == nil ? nil : item.value
    }
    return nil
  }

  /// Stores the first use of the request's ticket, and calls `finish` when the commit is durable. False: the
  /// request has no ticket, or its first use is stored already.
  func storeTicket(of request: Request, then finish: @escaping @Sendable () -> Void) -> Bool {
    guard tickets.hasUnstored, let text = Gate.ticket(in: request),
      let ticket = checked(text, request, now: clock.wallMilliseconds())
    else { return false }
    return tickets.store(ticket, then: finish)
  }

  private func checked(_ text: String, _ request: Request, now: Int64) -> StreamTicket? {
    EventRoutes.followed(request).flatMap {
      StreamTicket(checking: text, for: $0, against: signing.secrets, now: now / 1000)
    }
  }

  /// Whether the query contains the word `ticket`. A parameter's name is compared undecoded, so a query
  /// without that word has no ticket.
  private static func mayHoldTicket(_ query: UnsafeRawBufferPointer) -> Bool {
    let word: StaticString = "ticket"
    guard let start = query.baseAddress, query.count >= word.utf8CodeUnitCount else { return false }
    return (0...(query.count - word.utf8CodeUnitCount)).contains { offset in
      query[offset] == word.utf8Start[0]
        && memcmp(start + offset, word.utf8Start, word.utf8CodeUnitCount) == 0
    }
  }

  private func follower(_ text: String, _ request: Request) throws -> Caller {
    let now = clock.wallMilliseconds()
    let generation = signing.generation
    guard let ticket = checked(text, request, now: now) else { throw Gate.notForThisPath }
    // A request that also names its caller by a header is refused if the ticket is another user's.
    if request.header("Authorization") != nil || request.header("Perch-User") != nil {
      guard try header(request).user == UserID(ticket.user) else { throw Gate.notForThisPath }
    }
    let isInTime: Bool
    do { isInTime = try tickets.use(ticket, now: now) } catch let error as CacheError { throw Problem(error) }
    guard isInTime else { throw Gate.unauthorized("This ticket was not used in time.", "invalid_token") }
    return Caller(
      user: UserID(ticket.user), scopes: .chat, expires: ticket.expires, generation: generation)
  }

  private func bearer(_ request: Request, _ keyring: Keyring) throws -> Caller {
    if request.header("Perch-User") != nil {
      throw Problem(
        400, "user_header_refused", detail: "Perch-User is only heard with --auth off: send a token instead.")
    }
    guard let header = request.header("Authorization") else { throw Gate.unauthorized("Send one.", nil) }
    let (secrets, generation) = keyring.now
    let now = clock.wallMilliseconds() / 1000
    if let known = request.attachment as? Remembered, known.caller.generation == generation,
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
      let caller = Caller(
        user: UserID(token.user), scopes: token.scopes, expires: token.expires, generation: generation)
      request.attachment = remembered(header, caller)
      return caller
    } catch {
      switch error {
      case .expired: throw Gate.unauthorized("This one has expired: get a new one.", "invalid_token")
      case .invalid(let reason): throw Gate.unauthorized("This one is not valid: \(reason).", "invalid_token")
      }
    }
  }

  /// The object that all connections with this checked token share.
  private func remembered(_ header: UnsafeRawBufferPointer, _ caller: Caller) -> Remembered {
    var hasher = Hasher()
    hasher.combine(bytes: header)
    let hash = hasher.finalize()
    return checked.withLock { checked in
      if let known = checked[hash], known.caller == caller, known.header.elementsEqual(header) {
        return known
      }
      if checked.count >= Gate.mostChecked { checked = [:] }
      let made = Remembered(Array(header), caller)
      checked[hash] = made
      return made
    }
  }

  private func named(_ request: Request) throws -> Caller {
    guard let name = request.headerText("Perch-User"), !name.isEmpty,
      name.unicodeScalars.count <= BearerToken.userLimit
    else {
      throw Problem(
        401, "unauthorized", detail: "Authentication is off: name the user with the header Perch-User.",
        headers: [("WWW-Authenticate", "Perch-User")])
    }
    return Caller(user: UserID(name), scopes: [.chat, .admin], expires: .max, generation: 0)
  }

  private static var notForThisPath: Problem {
    unauthorized("This ticket is not valid for this path.", "invalid_token")
  }

  private static func unauthorized(_ detail: String, _ error: String?) -> Problem {
    Problem(
      401, "unauthorized", detail: "A bearer token is needed. " + detail,
      headers: [("WWW-Authenticate", "Bearer" + (error.map { " error=\"\($0)\"" } ?? ""))])
  }
}
