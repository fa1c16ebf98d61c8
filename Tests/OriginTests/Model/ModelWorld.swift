import Platform
import TestSupport
import Testing

@testable import Origin

/// A stand-in over real HTTP, a model of it, and the clock of both. Each operation is done on both; the
/// answer must be the model's.
final class ModelWorld {
  static let users = ["alice", "bob", "carol", "dave", "erin"]
  static let urls = ["tea", "coffee", "water"]

  private let origin: OriginServer
  private let line: Line
  private let time: Guarded<Int64>
  var random: SeededRandom
  var channels: [String: ModelChannel] = [:]
  private(set) var log: [String] = []

  init(seed: UInt64) throws {
    random = SeededRandom(seed: seed)
    let time = Guarded<Int64>(1_700_000_000_000)
    self.time = time
    var configuration = OriginServer.Configuration()
    configuration.clock = Clock(
      wallMilliseconds: { time.withLock { $0 } },
      monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    origin = try OriginServer(configuration)
    line = Line(port: try origin.start())
    for user in ModelWorld.users { try expect("POST", "/v3/users", #"{"user_id":"\#(user)"}"#) }
    for url in ModelWorld.urls {
      let members = ["alice", "bob", "carol"]
      try expect(
        "POST", "/v3/group_channels",
        #"{"channel_url":"\#(url)","user_ids":["alice","bob","carol"]}"#)
      var channel = ModelChannel(url: url)
      for member in members { channel.members[member] = ModelMember(joinedAt: now) }
      channels[url] = channel
    }
  }

  deinit { origin.stop() }

  var now: Int64 { time.withLock { $0 } }

  func call(_ method: String, _ path: String, _ body: String = "") throws -> Value {
    let answer = try #require(line.exchange(method, path, body), "no answer to \(method) \(path)")
    return Value(stored: String(decoding: answer.1, as: UTF8.self))
  }

  /// A call that must succeed, or be refused with `code`.
  @discardableResult
  private func expect(_ method: String, _ path: String, _ body: String = "", code: Int64? = nil) throws
    -> Value
  {
    let answer = try call(method, path, body)
    guard answer["code"]?.integer == code else {
      throw Disagreement(
        "\(method) \(path) \(body): \(answer.text), and not \(code.map { "\($0)" } ?? "well")")
    }
    return answer
  }

  /// Does one random operation on both.
  func step() throws {
    // Sometimes the clock stands still, so that messages share a millisecond.
    if !random.chance(40) { time.withLock { $0 += Int64.random(in: 1...50, using: &random) } }
    let url = random.one(of: ModelWorld.urls)
    let user = random.one(of: ModelWorld.users)
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<38: try send(url, user, parent: nil)
    case 38..<48: try send(url, user, parent: random.chance(95) ? message(in: url)?.id ?? 7 : 999_999_999)
    case 48..<58: try edit(url)
    case 58..<66: try delete(url)
    case 66..<80: try react(url, user)
    case 80..<84: try join(url, user)
    case 84..<87: try leave(url, user)
    case 87..<92: try hide(url, user)
    case 92..<94: try reset(url, user)
    default: try read(url, user)
    }
  }

  func message(in url: String) -> ModelMessage? {
    guard let messages = channels[url]?.messages, !messages.isEmpty else { return nil }
    // Mostly recent messages, as people do.
    let recent = random.chance(70) ? Array(messages.suffix(20)) : messages
    return random.one(of: recent)
  }

  private func path(_ url: String, _ rest: String = "") -> String { "/v3/group_channels/\(url)\(rest)" }

  private func send(_ url: String, _ user: String, parent: Int64?) throws {
    let text = "m\(Int.random(in: 0..<1_000_000, using: &random))"
    var body = #"{"message_type":"MESG","user_id":"\#(user)","message":"\#(text)""#
    let at = random.chance(10) ? now - Int64.random(in: 0...5000, using: &random) : nil
    if let at { body += #","created_at":\#(at)"# }
    let isShown = parent != nil && random.chance(30)
    if let parent { body += #","parent_message_id":\#(parent),"is_reply_to_channel":\#(isShown)"# }
    var code: Int64?
    if let parent {
      let above = channels[url]?.messages.first { $0.id == parent }
      code = above == nil ? 400201 : above?.parent != nil ? 400111 : nil
    }
    if channels[url]?.members[user] == nil { code = 900020 }
    let answer = try expect("POST", path(url, "/messages"), body + "}", code: code)
    guard code == nil else { return }
    guard let id = answer["message_id"]?.integer, answer["created_at"]?.integer == at ?? now else {
      throw Disagreement("sent at \(at ?? now): \(answer.text)")
    }
    channels[url]?.insert(
      ModelMessage(
        id: id, createdAt: at ?? now, user: user, text: text, parent: parent, isReplyToChannel: isShown))
  }

  private func edit(_ url: String) throws {
    guard let message = message(in: url) else { return }
    let text = "e\(Int.random(in: 0..<1_000_000, using: &random))"
    try expect(
      "PUT", path(url, "/messages/\(message.id)"), #"{"message_type":"MESG","message":"\#(text)"}"#)
    change(message, in: url) { $0.text = text }
  }

  private func change(_ message: ModelMessage, in url: String, _ body: (inout ModelMessage) -> Void) {
    guard let index = channels[url]?.messages.firstIndex(where: { $0.id == message.id }) else { return }
    body(&channels[url]!.messages[index])
  }

  private func delete(_ url: String) throws {
    guard let message = message(in: url) else { return }
    try expect("DELETE", path(url, "/messages/\(message.id)"))
    channels[url]?.messages.removeAll { $0.id == message.id }
    try expect("GET", path(url, "/messages/\(message.id)"), code: 400201)
  }

  private func react(_ url: String, _ user: String) throws {
    guard let message = message(in: url) else { return }
    let key = random.one(of: ["like", "tea", "wow"])
    let isAdded = random.chance(60)
    let isThere = message.reactions[key]?.contains(user) ?? false
    var code: Int64? = isAdded && isThere ? 400202 : !isAdded && !isThere ? 400201 : nil
    if channels[url]?.members[user] == nil { code = 900020 }
    let address = path(url, "/messages/\(message.id)/reactions")
    if isAdded {
      try expect("POST", address, #"{"user_id":"\#(user)","reaction":"\#(key)"}"#, code: code)
    } else {
      try expect("DELETE", "\(address)?user_id=\(user)&reaction=\(key)", code: code)
    }
    guard code == nil else { return }
    change(message, in: url) { message in
      if isAdded {
        message.reactions[key, default: []].append(user)
      } else {
        message.reactions[key]?.removeAll { $0 == user }
        if message.reactions[key]?.isEmpty == true { message.reactions[key] = nil }
      }
    }
  }

  private func join(_ url: String, _ user: String) throws {
    try expect("PUT", path(url, "/join"), #"{"user_id":"\#(user)"}"#)
    if channels[url]?.members[user] == nil {
      channels[url]?.members[user] = ModelMember(joinedAt: now)
    }
  }

  private func leave(_ url: String, _ user: String) throws {
    let isMember = channels[url]?.members[user] != nil
    try expect("PUT", path(url, "/leave"), #"{"user_ids":["\#(user)"]}"#, code: isMember ? nil : 900020)
    channels[url]?.members[user] = nil
  }

  private func hide(_ url: String, _ user: String) throws {
    let code: Int64? = channels[url]?.members[user] == nil ? 900020 : nil
    switch Int.random(in: 0..<3, using: &random) {
    case 0:
      try expect("DELETE", path(url, "/hide?user_id=\(user)"), code: code)
      channels[url]?.members[user]?.hidden = "unhidden"
    case let kind:
      let body = #"{"user_id":"\#(user)","allow_auto_unhide":\#(kind == 1)}"#
      try expect("PUT", path(url, "/hide"), body, code: code)
      channels[url]?.members[user]?.hidden =
        kind == 1 ? "hidden_allow_auto_unhide" : "hidden_prevent_auto_unhide"
    }
  }

  private func reset(_ url: String, _ user: String) throws {
    let code: Int64? = channels[url]?.members[user] == nil ? 900020 : nil
    try expect("PUT", path(url, "/reset_user_history"), #"{"user_id":"\#(user)"}"#, code: code)
    channels[url]?.members[user]?.floor = now
  }

  private func read(_ url: String, _ user: String) throws {
    let code: Int64? = channels[url]?.members[user] == nil ? 900020 : nil
    try expect("PUT", path(url, "/messages/mark_as_read"), #"{"user_id":"\#(user)"}"#, code: code)
    channels[url]?.members[user]?.readAt = now
  }
}

/// A difference between server and model.
struct Disagreement: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
