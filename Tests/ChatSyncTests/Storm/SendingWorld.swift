import ChatModel
import JSON
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// Alice in two channels, the messages she sends, and those that arrived.
final class SendingWorld {
  let there: OriginSide
  let here: PerchSide
  /// What the stand-in offers.
  var offers: [String: Value] = [:]
  private let policy: OutboxPolicy
  private static let alice = UserID("alice")

  init(policy: OutboxPolicy, firstByte: Int = 5_000) async throws {
    self.policy = policy
    there = try OriginSide(hasWebhooks: true)
    for url in ["c0", "c1"] { try there.makeChannel(url, ["alice", "bob"]) }
    here = try PerchSide(there.url, firstByte: firstByte, policy: policy)
    try await here.worker.start()
    _ = here.syncRequests.seen(Self.alice)
    let syncRequests = here.syncRequests
    #expect(await World.wait { syncRequests.connection(of: Self.alice).isSynced })
  }

  func end() async {
    await here.stop()
    here.remove()
    there.stop()
  }

  // MARK: Alice's actions

  func send(_ url: String, _ name: String, _ text: String, checksLength: Bool = true) async throws {
    let params = Array(#"{"type":"user","message":"\#(text)"}"#.utf8)
    try await accept(url, name, .message, nil, params, length: checksLength ? text.count : 0)
  }

  func change(
    _ url: String, _ name: String, _ kind: OutboxRow.Kind, of target: Int64, _ params: String
  ) async throws {
    try await accept(url, name, kind, target, Array(params.utf8))
  }

  private func accept(
    _ url: String, _ name: String, _ kind: OutboxRow.Kind, _ target: Int64?, _ params: [UInt8],
    length: Int = 0
  ) async throws {
    let channel = ChannelURL(url)
    let id = try #require(RequestID(name))
    let (policy, now) = (policy, Clock.system.wallMilliseconds())
    let body =
      kind.isMessage
      ? try here.cache.read { try $0.unsentBody(params, id, of: Self.alice, in: channel, at: now) } : []
    var request = UnsentRequest(
      requestID: id, kind: kind, content: OutboxContent(params: params, body: body), contentHash: params)
    request.target = target
    request.textLength = length
    let asked = request
    _ = try here.cache.accept { try $0.accept(asked, of: Self.alice, in: channel, policy) }
    await here.worker.accepted(in: [OutboxLaneName(user: Self.alice, channel: channel)])
  }

  // MARK: Faults

  func faults(_ random: inout Seeded) throws {
    let kinds = ["lose_reply", "dark", "refuse", "html", "cut_body", "status", "delay"]
    let kind = kinds.randomElement(using: &random) ?? "dark"
    try set([
      .object([
        "kind": .string(kind), "path": .string("/v3/group_channels/*/messages*"), "status": .integer(500),
        "milliseconds": .integer(20), "probability": .double(0.5),
      ])
    ])
  }

  func calm() throws {
    there.isCutOff = false
    try set([])
    here.syncRequests.urge()
  }

  func set(_ faults: [Value], seed: Int64 = 1) throws {
    try there.origin.setFaults(
      .object(["seed": .integer(seed), "faults": .array(faults), "capabilities": .object(offers)]))
  }

  // MARK: Results

  struct Message: Equatable {
    let id: Int64
    let text: String
    var request = ""
  }

  /// Whether every unsent row has failed or is gone within 20 s.
  func isDrained() async -> Bool {
    await World.wait(seconds: 20) { [self] in
      do { return try rows().allSatisfy { $0.contains("failed") } } catch { return false }
    }
  }

  /// Whether exactly these texts of alice's arrive within 20 s.
  func arrives(_ texts: [String], in url: String) async -> Bool {
    await World.wait(seconds: 20) { [self] in
      let found: [String]
      do { found = try arrived(url).map(\.text) } catch { return false }
      return found == texts
    }
  }

  /// The outbox rows: request id, state and error code.
  func rows() throws -> [String] {
    try here.cache.read { reader in
      try reader.db.all("SELECT request_id, state, coalesce(error_code, '') FROM outbox ORDER BY id") {
        "\($0.string(0)) \($0.string(1)) \($0.string(2))"
      }
    }
  }

  /// Alice's messages upstream, in the channel's order.
  func arrived(_ url: String) throws -> [Message] {
    try there.origin.store.read { db, _ in
      try db.all(
        """
        SELECT m.id, m.message
        FROM message AS m
        JOIN channel AS c ON c.id = m.channel
        WHERE c.url = ?1 AND m.user_id = 'alice'
        ORDER BY m.created_at, m.id
        """
      ) {
        $0.bind(1, url)
      } _: {
        Message(id: $0.int64(0), text: $0.string(1))
      }
    }
  }

  /// Alice's messages in the cache.
  func stored(_ url: String) throws -> [Message] {
    let rows = try here.channel(url, from: .start)?.rows ?? []
    return try rows.map { row in
      try JSONParser().parse("{\(row.body)}") { message in
        Message(
          id: row.position.messageID, text: message["message"]?.string ?? "",
          request: message["request_id"]?.string ?? "")
      }
    }
  }

  func fragments(_ url: String) throws -> [Int64: String] {
    try here.cache.read { reader in
      let user = try #require(try reader.userKey(of: Self.alice))
      return try reader.fragments(in: OutboxLaneKey(user: user, channel: ChannelURL(url)))
        .mapValues { String(decoding: $0, as: UTF8.self) }
    }
  }
}
