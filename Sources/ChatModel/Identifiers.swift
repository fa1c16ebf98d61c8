// Ids are compared and hashed by their bytes, as SQLite and the chat server do. Swift compares `String` by
// Unicode equivalence, which would take two users for one (B1).

/// A user's id, the same in bearer tokens and at the upstream.
package struct UserID: Hashable, Sendable, CustomStringConvertible {
  /// The id as the upstream spells it.
  package let text: String
  /// Names the user `text`.
  package init(_ text: String) { self.text = text }
  /// The id, for logs.
  package var description: String { text }

  /// Whether both are the same bytes (B1).
  package static func == (a: UserID, b: UserID) -> Bool { a.text.hasSameBytes(as: b.text) }
  /// Feeds the bytes.
  package func hash(into hasher: inout Hasher) { hasher.combine(bytesOf: text) }
}

/// The url of a group channel, which is its id.
package struct ChannelURL: Hashable, Sendable, CustomStringConvertible {
  /// The url as the upstream spells it.
  package let text: String
  /// Names the channel `text`.
  package init(_ text: String) { self.text = text }
  /// The url, for logs.
  package var description: String { text }

  /// Whether both are the same bytes (B1).
  package static func == (a: ChannelURL, b: ChannelURL) -> Bool { a.text.hasSameBytes(as: b.text) }
  /// Feeds the bytes.
  package func hash(into hasher: inout Hasher) { hasher.combine(bytesOf: text) }
}

/// The id of a request to send or change a message, given by the client or generated, unique per user (B37).
package struct RequestID: Hashable, Sendable, CustomStringConvertible {
  /// The id as the client spelled it.
  package let text: String

  /// Accepts `[A-Za-z0-9._:-]{1,80}` and nothing else.
  package init?(_ text: String) {
    guard (1...Limits.requestIDBytes).contains(text.utf8.count), text.utf8.allSatisfy(RequestID.isAllowed)
    else {
      return nil
    }
    self.text = text
  }

  private static func isAllowed(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: ":"),
      UInt8(ascii: "-"):
      true
    default: false
    }
  }

  /// The id, for logs.
  package var description: String { text }

  /// Whether both are the same bytes (B1).
  package static func == (a: RequestID, b: RequestID) -> Bool { a.text.hasSameBytes(as: b.text) }
  /// Feeds the bytes.
  package func hash(into hasher: inout Hasher) { hasher.combine(bytesOf: text) }
}

/// The token of an upstream changelog: everything before it is in the cache. Opaque to Perch.
package struct SyncToken: Hashable, Sendable {
  /// The token as the upstream gave it.
  package let text: String
  /// Wraps the upstream's token.
  package init(_ text: String) { self.text = text }

  /// Whether both are the same bytes (B1).
  package static func == (a: SyncToken, b: SyncToken) -> Bool { a.text.hasSameBytes(as: b.text) }
  /// Feeds the bytes.
  package func hash(into hasher: inout Hasher) { hasher.combine(bytesOf: text) }
}

/// The row id of a channel in the cache's database; it means nothing outside of that.
package struct ChannelKey: Hashable, Sendable {
  /// The key for the channel of a view that has not begun anew since everything was cleared. No row of any
  /// table has it.
  package static let unknown = ChannelKey(-1)
  /// The row's id.
  package let rawValue: Int64
  /// The key of the channel with this row id.
  package init(_ rawValue: Int64) { self.rawValue = rawValue }
}

/// The row id of a connected user in the cache's database; it means nothing outside of that.
package struct UserKey: Hashable, Sendable {
  /// The key for a user who is not stored. No row of any table has it; user 0 of `cached_count` stands for
  /// all users together.
  package static let unknown = UserKey(-1)
  /// The row's id.
  package let rawValue: Int64
  /// The key of the user with this row id.
  package init(_ rawValue: Int64) { self.rawValue = rawValue }
}
