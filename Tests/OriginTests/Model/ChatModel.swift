/// A model of a chat server in plain arrays, with whose rules the stand-in is compared.
struct ModelMessage: Equatable {
  let id: Int64
  let createdAt: Int64
  let user: String
  var text: String
  /// The users of each reaction, in the order they added it.
  var reactions: [String: [String]] = [:]
  var parent: Int64?
  var isReplyToChannel = false
  /// Whether the message is listed in the channel, and not only in a thread.
  var isShown: Bool { parent == nil || isReplyToChannel }

  static func isBefore(_ a: ModelMessage, _ b: ModelMessage) -> Bool {
    (a.createdAt, a.id) < (b.createdAt, b.id)
  }
}

struct ModelMember: Equatable {
  var joinedAt: Int64
  var readAt: Int64 = 0
  var floor: Int64 = 0
  var hidden = "unhidden"
}

struct ModelChannel {
  let url: String
  var members: [String: ModelMember] = [:]
  /// In order of their positions.
  var messages: [ModelMessage] = []

  func unread(_ user: String) -> Int {
    guard let member = members[user] else { return 0 }
    let from = max(member.readAt, member.floor, member.joinedAt - 1)
    return messages.count { $0.isShown && $0.user != user && $0.createdAt > from }
  }

  func replyCount(_ id: Int64) -> Int { messages.count { $0.parent == id } }

  func newest(_ user: String) -> ModelMessage? {
    messages.last { $0.isShown && $0.createdAt > (members[user]?.floor ?? 0) }
  }

  mutating func insert(_ message: ModelMessage) {
    let index = messages.lastIndex { ModelMessage.isBefore($0, message) }.map { $0 + 1 } ?? 0
    messages.insert(message, at: index)
    for user in members.keys where members[user]?.hidden == "hidden_allow_auto_unhide" {
      members[user]?.hidden = "unhidden"
    }
    members[message.user].map { members[message.user]?.readAt = max($0.readAt, message.createdAt) }
  }
}

/// A window as a client asks for it.
struct ModelWindow {
  enum Anchor {
    case time(Int64)
    case message(ModelMessage)
  }
  enum Replies: String, CaseIterable { case all, none, toChannel = "only_reply_to_channel" }

  let anchor: Anchor
  let older: Int
  let newer: Int
  let includesAnchor: Bool
  let isReversed: Bool
  let replies: Replies
  let sender: String?
  let viewer: String?

  /// The messages that the window must have.
  func messages(of channel: ModelChannel) -> [ModelMessage] {
    let floor = viewer.flatMap { channel.members[$0]?.floor } ?? -1
    let listed = channel.messages.filter { message in
      let isWanted =
        switch replies {
        case .all: true
        case .none: message.parent == nil
        case .toChannel: message.isShown
        }
      return isWanted && message.createdAt > floor && (sender == nil || message.user == sender)
    }
    var window: [ModelMessage]
    switch anchor {
    case .time(let time):
      let isOlder: (ModelMessage) -> Bool = { [includesAnchor, newer] message in
        message.createdAt < time || (message.createdAt == time && includesAnchor && newer == 0)
      }
      let isNewer: (ModelMessage) -> Bool = { [includesAnchor] message in
        message.createdAt > time || (message.createdAt == time && includesAnchor)
      }
      window = listed.filter(isOlder).suffix(older) + listed.filter(isNewer).prefix(newer)
    case .message(let anchor):
      window =
        listed.filter { ModelMessage.isBefore($0, anchor) }.suffix(older)
        + (includesAnchor ? [anchor] : [])
        + listed.filter { ModelMessage.isBefore(anchor, $0) }.prefix(newer)
    }
    return isReversed ? window.reversed() : window
  }

  /// The query that asks for it.
  var query: String {
    let start =
      switch anchor {
      case .time(let time): "message_ts=\(time)"
      case .message(let message): "message_id=\(message.id)"
      }
    return start + "&prev_limit=\(older)&next_limit=\(newer)&include=\(includesAnchor)&reverse=\(isReversed)"
      + "&include_reply_type=\(replies.rawValue)&include_reactions=true&include_thread_info=true"
      + (sender.map { "&sender_ids=\($0)" } ?? "") + (viewer.map { "&user_id=\($0)" } ?? "")
  }
}
