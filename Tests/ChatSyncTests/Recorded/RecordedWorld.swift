import ChatModel
import Glibc
import JSON
import Platform
import TestFolders
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// Alice's Perch and other people, who all use one server: the recorder in front of a real one, or the
/// recording.
final class RecordedWorld {
  static let alice = UserID("recorded-alice")
  static let bob = "recorded-bob"
  static let channel = ChannelURL("recorded-channel")

  let here: PerchSide
  private let base: String
  private let token: String
  private let client = HTTPClient()
  /// The text of each message that exists, from the answers to its sender.
  private(set) var texts: [Int64: String] = [:]

  /// Polls so rarely that only the test's actions lead to requests.
  private static var pace: Pace {
    var pace = PerchSide.pace
    let never: Int64 = 86_400_000
    (pace.openPoll, pace.openPollWithWebhooks, pace.userPoll) = (never, never, never)
    (pace.sweep, pace.verify) = (never, never)
    return pace
  }

  init(port: UInt16, token: String) throws {
    base = "http://127.0.0.1:\(port)"
    self.token = token
    here = try PerchSide(base, pace: Self.pace, token: token)
  }

  func end() async {
    await here.stop()
    here.remove()
    client.close()
  }

  // MARK: Other people

  /// Sends a request of other people. If a real server refuses it with a 429, sends it again.
  @discardableResult
  private func ask(_ method: HTTPRequest.Method, _ path: String, _ body: Value) async throws -> Value {
    while true {
      let request = HTTPRequest(
        method, base + path, headers: ["Api-Token: \(token)"], body: .json(Array(body.text.utf8)))
      let response = try await client.send(request)
      guard response.status == 429 else {
        return Value(stored: String(decoding: response.body.bytes, as: UTF8.self))
      }
      try await Task.sleep(for: .seconds(response.headers.retryAfter.flatMap { Int($0) } ?? 1))
    }
  }

  private var path: String { "/v3/group_channels/\(Self.channel.text)" }

  /// Creates the people and the channel, and deletes those of an earlier recording.
  func found() async throws {
    for user in [Self.alice.text, Self.bob] {
      try await ask(
        .post, "/v3/users",
        .object(["user_id": .string(user), "nickname": .string("Of \(user)"), "profile_url": .string("")]))
    }
    try await remove()
    let made = try await ask(
      .post, "/v3/group_channels",
      .object([
        "channel_url": .string(Self.channel.text), "name": .string("Recorded"),
        "user_ids": .array([.string(Self.alice.text), .string(Self.bob)]),
      ]))
    try #require(made["channel_url"] == .string(Self.channel.text), "\(made)")
  }

  func remove() async throws { try await ask(.delete, path, .object([:])) }

  /// Bob sends a message. Returns its id.
  @discardableResult
  func send(_ text: String, parent: Int64? = nil) async throws -> Int64 {
    var body: [String: Value] = [
      "message_type": .string("MESG"), "user_id": .string(Self.bob), "message": .string(text),
    ]
    if let parent { body["parent_message_id"] = .integer(parent) }
    let sent = try await ask(.post, path + "/messages", .object(body))
    let id = try #require(sent["message_id"]?.integer, "\(sent)")
    texts[id] = text
    return id
  }

  func edit(_ id: Int64, _ text: String) async throws {
    try await ask(
      .put, path + "/messages/\(id)",
      .object(["message_type": .string("MESG"), "message": .string(text)]))
    texts[id] = text
  }

  func delete(_ id: Int64) async throws {
    try await ask(.delete, path + "/messages/\(id)", .object([:]))
    texts[id] = nil
  }

  // MARK: Perch

  /// A webhook, as the server would send one.
  func note(_ category: String, _ id: Int64) async {
    let webhook = Value.object([
      "category": .string("group_channel:\(category)"),
      "channel": .object(["channel_url": .string(Self.channel.text)]),
      "payload": .object(["message_id": .integer(id)]),
    ])
    _ = await here.worker.takeWebhook(Array(webhook.text.utf8))
  }

  /// Alice sends through Perch, and the message is confirmed.
  func sendThroughPerch(_ name: String, _ text: String) async throws {
    let id = try #require(RequestID(name))
    let params = Array(#"{"type":"user","message":"\#(text)"}"#.utf8)
    let now = Clock.system.wallMilliseconds()
    let body = try here.cache.read {
      try $0.unsentBody(params, id, of: Self.alice, in: Self.channel, at: now)
    }
    let request = UnsentRequest(
      requestID: id, kind: .message, content: OutboxContent(params: params, body: body), contentHash: params)
    _ = try here.cache.accept { try $0.accept(request, of: Self.alice, in: Self.channel, OutboxPolicy()) }
    let before = Set(try rows().keys)
    await here.worker.accepted(in: [OutboxLaneName(user: Self.alice, channel: Self.channel)])
    #expect(await World.wait { (try? self.rows().count) == before.count + 1 })
    for id in try rows().keys where !before.contains(id) { texts[id] = text }
  }

  /// The text of each message in Perch's cache.
  func rows() throws -> [Int64: String] {
    var rows: [Int64: String] = [:]
    for row in try here.channel(Self.channel.text, from: .start)?.rows ?? [] {
      rows[row.position.messageID] = Value(stored: "{" + row.body + "}")["message"]?.string
    }
    return rows
  }

  func holdsAll() -> Bool { (try? rows()) == texts }

  /// Waits until Perch sends no more requests, at most half a minute.
  func quiet() async throws {
    var seen = -1
    for _ in 0..<100 where seen != here.requests {
      seen = here.requests
      try await Task.sleep(for: .milliseconds(300))  // because quiet has a length
    }
  }
}
