import ChatCache
import ChatModel
import Platform

@testable import ChatAPI
@testable import ChatCollections
@testable import MicroHTTP

/// A text that a client sends back: a cursor, a position, a token, a ticket, a sort key of a list, a range.
/// An accepted text, written again, must be the same, and no text is valid that was not signed here.
///
/// The first byte selects the kind of text.
enum TokenHarness {
  private static let secrets: SigningSecrets = {
    do { return try SigningSecrets("a-secret-of-thirty-two-characters") } catch { fatalError("\(error)") }
  }()
  private static let now: Int64 = 1_700_000_000

  static func run(_ input: UnsafeRawBufferPointer) throws {
    guard let kind = input.first else { return }
    let bytes = UnsafeRawBufferPointer(rebasing: input.dropFirst())
    let text = String(decoding: bytes, as: UTF8.self)
    switch kind % 10 {
    case 0: try cursor(text)
    case 1: try position(bytes, text)
    case 2: try bearer(bytes)
    case 3: try claims(bytes)
    case 4: try ticket(text)
    case 5: try signedTicket(text)
    case 6: try base64(bytes)
    case 7: try range(bytes)
    case 8: try edge(text)
    default: try signature(bytes)
    }
  }

  private static func cursor(_ text: String) throws {
    guard let cursor = EventCursor(text) else { return }
    try check(cursor.description.utf8.elementsEqual(text.utf8), "a cursor in two spellings: \(text)")
    try check(cursor.run >= 1 && cursor.sequence >= 0, "a cursor before the beginning: \(text)")
  }

  private static func position(_ bytes: UnsafeRawBufferPointer, _ text: String) throws {
    _ = MessageViewRequest.isPosition(text)
    guard let position = Position(utf8: bytes) else { return }
    try check(position.description.utf8.elementsEqual(bytes), "a position in two spellings: \(text)")
    try check(position.next.previous == position || position == .end, "next and previous: \(text)")
  }

  private static func bearer(_ bytes: UnsafeRawBufferPointer) throws {
    do throws(BearerToken.Refusal) {
      _ = try BearerToken(checking: bytes, against: secrets, now: now)
    } catch { return }
    throw FuzzFinding("a token that was not signed here is good")
  }

  /// The first line is the header, the rest the claims, both signed here.
  private static func claims(_ bytes: UnsafeRawBufferPointer) throws {
    let header = bytes.prefix { $0 != 0x0A }
    var text =
      Base64URL.encode(Array(header)) + "." + Base64URL.encode(Array(bytes.dropFirst(header.count + 1)))
    let code = text.withUTF8 { secrets.sign(UnsafeRawBufferPointer($0)) }
    text += "." + Base64URL.encode(code)
    do throws(BearerToken.Refusal) {
      let token = try text.withUTF8Bytes { bytes throws(BearerToken.Refusal) in
        try BearerToken(checking: bytes, against: secrets, now: now)
      }
      guard (1...BearerToken.userLimit).contains(token.user.count), token.expires > now else {
        throw .invalid("a finding")
      }
      let again = try token.signed(with: secrets).withUTF8Bytes { bytes throws(BearerToken.Refusal) in
        try BearerToken(checking: bytes, against: secrets, now: now)
      }
      if again != token { throw .invalid("a finding") }
    } catch {
      try check(error != .invalid("a finding"), "a token that is none: \(text)")
    }
  }

  private static func ticket(_ text: String) throws {
    let ticket = StreamTicket(checking: text, for: "/v1/events", against: secrets, now: now)
    try check(ticket == nil, "a ticket that was not signed here is good: \(text)")
  }

  private static func signedTicket(_ user: String) throws {
    guard !user.isEmpty, user.utf8.count < 300 else { return }
    let ticket = StreamTicket(user: user, issued: now * 1000, expires: now + 60)
    let text = ticket.signed(for: "/v1/events", with: secrets)
    let found = StreamTicket(checking: text, for: "/v1/events", against: secrets, now: now)
    try check(
      found.map { $0.user.utf8.elementsEqual(user.utf8) } ?? false, "a ticket is not its own: \(user)")
    let elsewhere = StreamTicket(checking: text, for: "/v1/events/", against: secrets, now: now)
    let later = StreamTicket(checking: text, for: "/v1/events", against: secrets, now: now + 60)
    try check(elsewhere == nil && later == nil, "a ticket is good elsewhere or later: \(user)")
  }

  private static func base64(_ bytes: UnsafeRawBufferPointer) throws {
    let encoded = Array(Base64URL.encode(Array(bytes)).utf8)
    try check(encoded.withUnsafeBytes { Base64URL.decode($0) } == Array(bytes), "base64 there and back")
    guard let decoded = Base64URL.decode(bytes) else { return }
    try check(Base64URL.encode(decoded).utf8.elementsEqual(bytes), "base64 in two spellings: \(Array(bytes))")
  }

  /// The first byte is the file's size.
  private static func range(_ bytes: UnsafeRawBufferPointer) throws {
    guard let first = bytes.first else { return }
    let size = Int(first)
    let header = UnsafeRawBufferPointer(rebasing: bytes.dropFirst())
    guard let range = ByteRange(header, size: size), range != .unsatisfiable else { return }
    try check(range.first >= 0 && range.count > 0, "an empty range: \(range)")
    try check(range.first + range.count <= size, "a range beyond \(size): \(range)")
  }

  /// Reads the text as a token of a sort key, and as the text of a sort key.
  private static func edge(_ text: String) throws {
    var query = ChannelQuery()
    query.order = .name
    do {
      let key = try ChannelEdge.key(text, query)
      let again = try ChannelEdge.key(ChannelEdge.token(key, query), query)
      try check(key == again, "a sort key comes back as another: \(key) \(again)")
    } catch is Problem {}
    let key = ChannelListKey(time: 0, text: text, channelURL: "sendbird_group_channel")
    do {
      try check(
        try ChannelEdge.key(ChannelEdge.token(key, query), query) == key, "a sort key is another: \(text)")
    } catch is Problem {
      throw FuzzFinding("a sort key that was given out is refused: \(text)")
    }
    try edge(ofView: key, query)
  }

  /// The same for the edge of a view.
  private static func edge(ofView key: ChannelListKey, _ query: ChannelQuery) throws {
    let view = ChannelCollection(
      id: "c1", user: UserKey(1), userID: UserID("alice"), query: query,
      window: ChannelWindow(boundary: nil, hasMore: false), accessedAt: 0,
      epoch: 1)
    do throws(ViewError) {
      let read = try view.key(ofEdge: view.edge(key))
      guard read == key else { throw .notFound }
    } catch {
      throw FuzzFinding("a view's edge that was given out is refused: \(key.text)")
    }
  }

  private static func signature(_ bytes: UnsafeRawBufferPointer) throws {
    guard let signature = WebhookSignature(secret: "secret") else { return }
    try check(!signature.isGood(bytes, of: bytes), "a body signs itself")
    try signature.sign(bytes).withUnsafeBytes {
      try check(signature.isGood($0, of: bytes), "a body's own signature is refused")
    }
  }
}

extension String {
  /// Lends the text's bytes.
  fileprivate func withUTF8Bytes<Result, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let bytes = Array(utf8)
    let outcome = bytes.withUnsafeBytes { bytes in
      Swift.Result { () throws(Failure) in try body(bytes) }
    }
    return try outcome.get()
  }
}
