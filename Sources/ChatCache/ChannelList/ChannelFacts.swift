import ChatModel

/// The values of one channel, as one user sees it, that filters and orders of a channel list compare.
package struct ChannelFacts: Hashable, Sendable {
  /// A member of the channel.
  package struct Member: Hashable, Sendable {
    /// The member's id.
    package let userID: String
    /// The nickname, lowercased (`ChannelFacts.key`).
    package let nicknameKey: String
    /// Names a member.
    package init(userID: String, nicknameKey: String) {
      self.userID = userID
      self.nicknameKey = nicknameKey
    }
  }

  /// The channel's url.
  package var channelURL: String
  /// The displayed name, lowercased (`ChannelFacts.key`).
  package var nameKey = ""
  /// The app's own type of channel.
  package var customType = ""
  /// When it was made, ms.
  package var createdAt: Int64 = 0
  /// Whether everybody may join.
  package var isPublic = false
  /// Whether it is for very many members.
  package var isSuper = false
  /// Whether nobody but operators may write.
  package var isFrozen = false
  /// `ChannelFacts.sortAt` of the newest message at or after the user's floor.
  package var sortAt: Int64 = 0
  /// Whether the user joined: "joined" or "invited".
  package var state = "joined"
  /// Whether the user hid the channel, as the upstream spells it.
  package var hiddenState = "unhidden"
  /// How many messages the user has not read.
  package var unread: Int64 = 0
  /// How many members the upstream says there are.
  package var memberCount = 0
  /// The stored members.
  package var members: [Member] = []
  /// The metadata, or nil while it was never fetched.
  package var metadata: [ExactText: String]?

  /// A channel of which nothing else is known.
  package init(channelURL: String) { self.channelURL = channelURL }

  /// Whether all members are stored, so that a user who is not stored is no member (`MemberList.isComplete`).
  package var knowsMembers = true

  /// The value of the column `sort_at`: the newest message's time, or, without a message, the creation time
  /// far below every real time. One number thus orders both (B7).
  package static func sortAt(lastMessageAt: Int64?, createdAt: Int64) -> Int64 {
    lastMessageAt ?? createdAt - withoutMessage
  }

  /// Subtracted from the creation time of a channel without messages: more than any time in ms.
  package static let withoutMessage: Int64 = 1 << 52

  /// The lowercased form of a name, nickname or metadata value, by Unicode's rules. Filters and orders
  /// compare this form (B7).
  package static func key(_ text: String) -> String { text.lowercased() }
}

extension StringProtocol {
  /// Whether this text's UTF-8 bytes contain those of `part`, as SQLite's instr compares.
  func containsBytes(of part: String) -> Bool {
    let text = Array(utf8)
    let part = Array(part.utf8)
    guard part.count <= text.count else { return false }
    return (0...(text.count - part.count)).contains { text[$0..<($0 + part.count)].elementsEqual(part) }
  }
}
