import ChatModel

/// What a channel list's filters and orders look at: one channel as one user sees it.
package struct ChannelFacts: Hashable, Sendable {
  /// A member of the channel.
  package struct Member: Hashable, Sendable {
    /// Who.
    package let userID: String
    /// The nickname, lowercased (`ChannelFacts.key`).
    package let nicknameKey: String
    /// Names a member.
    package init(userID: String, nicknameKey: String) {
      self.userID = userID
      self.nicknameKey = nicknameKey
    }
  }

  /// The channel's name.
  package var channelURL: String
  /// The displayed name, lowercased (`ChannelFacts.key`).
  package var nameKey = ""
  /// The app's own kind.
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
  /// Whether the user hid it, as the upstream spells it.
  package var hiddenState = "unhidden"
  /// How many messages the user has not read.
  package var unread: Int64 = 0
  /// How many members the upstream says there are.
  package var memberCount = 0
  /// The members that are known here.
  package var members: [Member] = []
  /// The metadata, or nil while it was never fetched.
  package var metadata: [ExactText: String]?

  /// A channel of which nothing else is known.
  package init(channelURL: String) { self.channelURL = channelURL }

  /// Whether all members are known, so that who is not among them is no member (`MemberList.isComplete`).
  package var knowsMembers = true

  /// The value of the column `sort_at`: the newest message's time, or, without a message, the creation time
  /// far below every real time. One number thus orders both (B7).
  package static func sortAt(lastMessageAt: Int64?, createdAt: Int64) -> Int64 {
    lastMessageAt ?? createdAt - withoutMessage
  }

  /// What a channel without messages is moved down by: more than any time in ms.
  package static let withoutMessage: Int64 = 1 << 52

  /// The text that is compared instead of a name, nickname or metadata value: Unicode-lowercased (B7).
  package static func key(_ text: String) -> String { text.lowercased() }
}

extension StringProtocol {
  /// Whether the UTF-8 bytes of `part` stand in this text's, as SQLite's instr sees it.
  func containsBytes(of part: String) -> Bool {
    let text = Array(utf8)
    let part = Array(part.utf8)
    guard part.count <= text.count else { return false }
    return (0...(text.count - part.count)).contains { text[$0..<($0 + part.count)].elementsEqual(part) }
  }
}
