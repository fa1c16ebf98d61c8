import ChatCache
import ChatModel
import JSON
import Platform
import TestSupport

@testable import ChatAPI

/// The outcomes of sends, as the test decides.
extension CollectionWorld {
  /// A world in which alice and bob are in `general`, with the messages 1 and 2 of bob and 3 of alice.
  static func forSending(gate: Gate = Gate(.named), policy: OutboxPolicy = OutboxPolicy()) throws
    -> CollectionWorld
  {
    let world = try CollectionWorld(gate: gate, policy: policy)
    try world.join("alice", "general")
    try world.join("bob", "general")
    for (id, sender) in [(1, "bob"), (2, "bob"), (3, "alice")] as [(Int64, String)] {
      try world.put(id, from: sender)
    }
    return world
  }

  /// Stores a message of the upstream's.
  func put(_ id: Int64, from sender: String, answering request: String = "") throws {
    try cache.write { try Self.put(id, from: sender, answering: request, $0) }
  }

  /// The same, in a commit with other changes.
  static func put(_ id: Int64, from sender: String, answering request: String, _ writer: CacheWriter) throws {
    var json = JSONWriter()
    json.name("message_id")
    json.value(quoting: id)
    json.field("request_id", request)
    json.field("message", "hello \(id)")
    json.field("created_at", id * 10)
    let body = json.finish().array
    _ = try writer.store(
      MessageRecord(
        messageID: id, createdAt: id * 10, updatedAt: 0, kind: .user, isSilent: false,
        isReplyToChannel: false,
        parentID: nil, parentAt: nil, sender: sender, customType: "", requestID: request, mentions: .nobody,
        body: body, parent: nil), in: ChannelURL("general"), .messageSent)
  }

  /// The same world, in which alice has a token with the scope chat. Without tokens all users have every
  /// scope.
  static func withToken() throws -> (world: CollectionWorld, headers: [String: String]) {
    let secrets = try SigningSecrets("0123456789abcdef0123456789abcdef")
    let token = BearerToken(
      user: "alice", scopes: .chat, expires: Clock.system.wallMilliseconds() / 1000 + 600
    ).signed(with: secrets)
    let headers = ["Authorization": "Bearer \(token)", "Content-Type": "application/json"]
    return (try forSending(gate: Gate(.tokens(Keyring(secrets)))), headers)
  }

  /// The lane of a user in `general`.
  func laneKey(of user: String = "alice") throws -> OutboxLaneKey {
    let key = try cache.read { try $0.userKey(of: UserID(user)) }
    return OutboxLaneKey(user: key ?? UserKey(0), channel: ChannelURL("general"))
  }

  /// The lane's rows.
  func rows(of user: String = "alice") throws -> [OutboxRow] {
    let laneKey = try laneKey(of: user)
    return try cache.read { try $0.lane(laneKey).rows }
  }

  /// Ends the request as refused by the upstream.
  func refuse(_ request: String, of user: String = "alice", code: String = "900100") throws {
    let laneKey = try laneKey(of: user)
    try cache.write { writer in
      try writer.changeLane(laneKey) { lane in
        guard let row = RequestID(request).flatMap({ lane.row($0) }),
          lane.dispatch(row.id, .send, now: writer.now)
        else { return [] }
        return lane.finish(row.id, .send, .rejection(code: code), now: writer.now, random: 3)
      }
    }
  }

  /// Puts the request in flight. `newest`: the newest message that was known then.
  func dispatch(_ request: String, of user: String = "alice", newest: Position = .start) throws {
    let laneKey = try laneKey(of: user)
    try cache.write { writer in
      try writer.changeLane(laneKey) { lane in
        if let row = RequestID(request).flatMap({ lane.row($0) }) {
          _ = lane.dispatch(row.id, .send, now: writer.now, newest: newest)
        }
        return []
      }
    }
  }

  /// Ends the send with the message that it became, as the chat server answers it.
  func answer(_ request: String, with message: MessageRecord, of user: String = "alice") throws {
    let laneKey = try laneKey(of: user)
    var named = message
    named.requestID = request
    named.body += Array(#","request_id":"\#(request)""#.utf8)
    let answered = named
    try cache.write { writer in
      try writer.changeLane(laneKey) { lane in
        guard let row = RequestID(request).flatMap({ lane.row($0) }) else { return [] }
        return lane.finish(
          row.id, .send, .success(message: answered.messageID), now: writer.now, random: 3)
      }
      _ = try writer.store(answered, in: ChannelURL("general"), .messageSent)
    }
  }

  /// Sends a text of the user's.
  func send(_ request: String, _ more: String = "", as user: String = "alice") -> Answer {
    post(
      "/v1/channels/general/messages", #"{"message":"hi","request_id":"\#(request)"\#(more)}"#, as: user)
  }

  /// How often the sync worker was told of an accepted row.
  var told: Int { syncRequests.calls.count { if case .accepted = $0 { true } else { false } } }
}
