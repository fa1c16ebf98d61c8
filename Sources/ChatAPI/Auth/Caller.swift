import ChatModel

/// The rights that a token gives.
package struct Scopes: OptionSet, Sendable, Hashable {
  /// One bit per scope.
  package let rawValue: UInt8
  /// The bits of a stored set.
  package init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Reading and writing as the user of the token.
  package static let chat = Scopes(rawValue: 1)
  /// The operator's endpoints.
  package static let admin = Scopes(rawValue: 2)

  /// The scopes of a token's `scope`, words separated by single spaces; unknown words are ignored.
  package init(words: String) {
    self = []
    for word in words.split(separator: " ") {
      if word == "chat" { insert(.chat) }
      if word == "admin" { insert(.admin) }
    }
  }

  /// The words of this set, as a token's `scope` writes them.
  package var words: String {
    [(Scopes.chat, "chat"), (.admin, "admin")].filter { contains($0.0) }.map(\.1).joined(separator: " ")
  }
}

/// The user who sends a request, as the request's token names them.
package struct Caller: Sendable, Equatable {
  /// The user's id. Answers show what this user may see.
  package let user: UserID
  /// The rights that the token gives.
  package let scopes: Scopes
  /// When the token ends, in seconds since 1970.
  package let expires: Int64

  /// Whether the token is an operator's that names no chat user.
  var isOperatorAlone: Bool { scopes.contains(.admin) && !scopes.contains(.chat) }

  /// The generation of the secrets that the token was checked against (see `Keyring`).
  let generation: UInt64

  /// A caller.
  init(user: UserID, scopes: Scopes, expires: Int64, generation: UInt64) {
    self.user = user
    self.scopes = scopes
    self.expires = expires
    self.generation = generation
  }
}
