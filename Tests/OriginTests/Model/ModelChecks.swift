@testable import Origin

extension ModelMessage {
  /// The fields of the server's message that the model also has.
  init(_ json: Value) {
    self.init(
      id: json["message_id"]?.integer ?? 0, createdAt: json["created_at"]?.integer ?? 0,
      user: json["user"]?["user_id"]?.string ?? "", text: json["message"]?.string ?? "",
      parent: json["parent_message_id"]?.integer,
      isReplyToChannel: json["is_reply_to_channel"] == .bool(true))
    for reaction in json["reactions"]?.items ?? [] {
      reactions[reaction["key"]?.string ?? ""] = reaction["user_ids"]?.strings ?? []
    }
  }
}

/// The comparisons after every hundred operations.
extension ModelWorld {
  /// Compares the messages of 20 random windows, with their reactions and threads.
  func checkWindows() throws {
    for _ in 0..<20 {
      guard let channel = channels[random.one(of: ModelWorld.urls)] else { return }
      let window = window(of: channel)
      let answer = try call("GET", "/v3/group_channels/\(channel.url)/messages?\(window.query)")
      let items = answer["messages"]?.items ?? []
      let wanted = window.messages(of: channel)
      guard items.map(ModelMessage.init) == wanted else {
        throw Disagreement("window \(window.query) of \(channel.url): \(answer.text), not \(wanted)")
      }
      for (item, message) in zip(items, wanted) {
        let count = item["thread_info"]?["reply_count"]?.integer ?? 0
        guard count == channel.replyCount(message.id) else {
          throw Disagreement("\(channel.url)/\(message.id) has \(count) replies")
        }
      }
    }
  }

  private func window(of channel: ModelChannel) -> ModelWindow {
    let near = message(in: channel.url)
    let anchor: ModelWindow.Anchor =
      switch Int.random(in: 0..<10, using: &random) {
      case 0: .time(0)
      case 1: .time(9_007_199_254_740_991)
      case 2..<6: .time((near?.createdAt ?? now) + Int64.random(in: -2...2, using: &random))
      default: near.map { .message($0) } ?? .time(now)
      }
    return ModelWindow(
      anchor: anchor, older: random.one(of: [0, 1, 3, 15, 50, 200]),
      newer: random.one(of: [0, 1, 3, 15, 50, 200]), includesAnchor: random.chance(70),
      isReversed: random.chance(30), replies: random.one(of: ModelWindow.Replies.allCases),
      sender: random.chance(20) ? random.one(of: ModelWorld.users) : nil,
      viewer: random.chance(50) ? random.one(of: ModelWorld.users) : nil)
  }

  /// Compares totals, and the unread messages of each member and of each user.
  func checkCounts() throws {
    for channel in channels.values {
      let path = "/v3/group_channels/\(channel.url)/messages"
      let total = try call("GET", path + "/total_count")["total"]?.integer
      guard total == Int64(channel.messages.count) else {
        throw Disagreement("\(channel.url) has \(channel.messages.count) messages, not \(total ?? -1)")
      }
      guard !channel.members.isEmpty else { continue }
      let users = channel.members.keys.sorted()
      let unread = try call("GET", path + "/unread_count?user_ids=\(users.joined(separator: ","))")["unread"]
      for user in users where unread?[user]?.integer != Int64(channel.unread(user)) {
        throw Disagreement(
          "\(user) has \(channel.unread(user)) unread in \(channel.url), not \(unread?.text ?? "")")
      }
    }
    for user in ModelWorld.users {
      let sum = channels.values.reduce(0) { $0 + $1.unread(user) }
      let answer = try call("GET", "/v3/users/\(user)/unread_message_count")
      guard answer["unread_count"]?.integer == Int64(sum) else {
        throw Disagreement("\(user) has \(sum) unread, not \(answer.text)")
      }
    }
  }
}

/// The state of a client that got each message once, and since then only reads changelogs.
struct ModelMirror {
  private var messages: [String: [Int64: ModelMessage]] = [:]
  private var replies: [Int64: Int] = [:]
  private var messageTokens: [String: String] = [:]
  private var views: [String: [String: Value]] = [:]
  private var listTokens: [String: String] = [:]

  /// Adds the messages that are new since the last call, as they were when sent.
  mutating func learn(_ sent: [ModelMessage], in url: String) {
    for message in sent where messages[url]?[message.id] == nil {
      messages[url, default: [:]][message.id] = message
    }
  }

  /// Reads every changelog to its end, and compares.
  mutating func replay(_ world: ModelWorld) throws {
    for channel in world.channels.values {
      try replayMessages(channel, world)
      let wanted = Dictionary(uniqueKeysWithValues: channel.messages.map { ($0.id, $0) })
      guard messages[channel.url] ?? [:] == wanted else {
        throw Disagreement("the changelog of \(channel.url) led to something else")
      }
      for message in channel.messages where replies[message.id] ?? 0 != channel.replyCount(message.id) {
        throw Disagreement("the changelog of \(channel.url) tells of other replies to \(message.id)")
      }
    }
    for user in ModelWorld.users {
      try replayList(user, world)
      try compareList(user, world)
    }
  }

  private mutating func replayMessages(_ channel: ModelChannel, _ world: ModelWorld) throws {
    var hasMore = true
    while hasMore {
      let since = messageTokens[channel.url].map { "token=\($0)" } ?? "change_ts=0"
      let page = try world.call(
        "GET",
        "/v3/group_channels/\(channel.url)/messages/changelogs?\(since)&include_reactions=true"
          + "&include_thread_info=true&limit=\(world.random.one(of: [1, 7, 100]))")
      for item in page["updated"]?.items ?? [] {
        let message = ModelMessage(item)
        messages[channel.url, default: [:]][message.id] = message
        replies[message.id] = Int(item["thread_info"]?["reply_count"]?.integer ?? 0)
      }
      for item in page["deleted"]?.items ?? [] {
        messages[channel.url]?[item["message_id"]?.integer ?? 0] = nil
      }
      messageTokens[channel.url] = page["next"]?.string
      hasMore = page["has_more"] == .bool(true)
    }
  }

  private mutating func replayList(_ user: String, _ world: ModelWorld) throws {
    var hasMore = true
    while hasMore {
      let since = listTokens[user].map { "token=\($0)" } ?? "change_ts=0"
      let page = try world.call("GET", "/v3/users/\(user)/my_group_channels/changelogs?\(since)")
      for item in page["updated"]?.items ?? [] {
        views[user, default: [:]][item["channel_url"]?.string ?? ""] = item
      }
      for url in page["deleted"]?.strings ?? [] { views[user]?[url] = nil }
      listTokens[user] = page["next"]?.string
      hasMore = page["has_more"] == .bool(true)
    }
  }

  private func compareList(_ user: String, _ world: ModelWorld) throws {
    let mine = world.channels.values.filter { $0.members[user] != nil }
    guard Set((views[user] ?? [:]).keys) == Set(mine.map(\.url)) else {
      throw Disagreement("the changelog of \(user)'s list leads to \((views[user] ?? [:]).keys)")
    }
    for channel in mine {
      guard let view = views[user]?[channel.url], let member = channel.members[user] else { continue }
      let isSame =
        view["hidden_state"]?.string == member.hidden
        && view["member_count"]?.integer == Int64(channel.members.count)
        && view["unread_message_count"]?.integer == Int64(channel.unread(user))
        && view["ts_message_offset"]?.integer == member.floor
        && view["last_message"]?["message_id"]?.integer == channel.newest(user)?.id
      guard isSame else {
        throw Disagreement("\(user)'s changelog shows \(channel.url) as \(view.text), not \(member)")
      }
    }
  }
}
