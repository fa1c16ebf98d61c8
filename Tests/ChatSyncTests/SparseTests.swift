import ChatModel
import Glibc
import JSON
import TestFolders
import Testing

@testable import ChatCache
@testable import ChatSync

/// Answers that carry only some fields, from the wire's JSON to the object a client gets.
@Suite(.timeLimit(.minutes(5)))
struct SparseTests {
  private static let url = ChannelURL("general")
  private static let alice = UserID("alice")

  /// A field of the wire, its name in the object, and two values of each.
  struct Field: Sendable, CustomTestStringConvertible {
    let wire: String
    let name: String
    let values: (wire: [String], object: [String])
    var testDescription: String { wire }

    init(_ wire: String, as name: String? = nil, _ values: [String], shown: [String]? = nil) {
      self.wire = wire
      self.name = name ?? wire
      self.values = (values, shown ?? values)
    }
  }

  static let fields: [Field] = [
    Field("name", [#""One""#, #""Two""#]),
    Field("cover_url", [#""http://one""#, #""""#]),
    Field("data", [#""d1""#, #""d2""#]),
    Field("custom_type", [#""sport""#, #""work""#]),
    Field("created_at", ["1500000000", "1500000001"], shown: ["1500000000000", "1500000001000"]),
    Field("is_distinct", ["true", "false"]),
    Field("is_public", ["false", "true"]),
    Field("is_super", ["true", "false"]),
    Field("freeze", as: "is_frozen", ["true", "false"]),
    Field("is_broadcast", ["true", "false"]),
    Field("member_count", ["3", "4"]),
    Field("joined_member_count", ["2", "3"]),
    Field("metadata", [#"{"colour":"green"}"#, #"{"colour":"red"}"#]),
    Field("read_receipt", as: "read_receipts", [#"{"bob":5000000000000}"#, #"{"bob":5000000000009}"#]),
    Field(
      "last_message",
      [message(7, at: 1_600_000_000_000), message(8, at: 1_600_000_000_900)],
      shown: [#""7""#, #""8""#]),
    Field("unread_message_count", ["4", "6"]),
    Field("unread_mention_count", ["2", "1"]),
    Field("member_state", as: "my_member_state", [#""invited""#, #""joined""#]),
    Field("my_role", [#""operator""#, #""none""#]),
    Field("is_muted", as: "my_muted", ["true", "false"]),
    Field("hidden_state", [#""hidden_prevent_auto_unhide""#, #""unhidden""#]),
    Field("ts_message_offset", as: "history_floor_at", ["1400000000000", "1400000000007"]),
    Field("invited_at", ["1450000000000", "1450000000007"]),
    Field(
      "inviter", [#"{"user_id":"bob","nickname":"B"}"#, #"{"user_id":"carol","nickname":"C"}"#],
      shown: [#""bob""#, #""carol""#]),
  ]

  private static func message(_ id: Int, at: Int64) -> String {
    #"{"message_id":\#(id),"type":"MESG","message":"x","user":{"user_id":"bob"},"created_at":\#(at)}"#
  }

  /// A changelog's entry with these fields, each with its first or second value.
  private static func entry(_ chosen: [(field: Field, second: Bool)]) -> String {
    let fields = chosen.map { #""\#($0.field.wire)":\#($0.field.values.wire[$0.second ? 1 : 0])"# }
    return "{" + ([#""channel_url":"general""#] + fields).joined(separator: ",") + "}"
  }

  /// A cache whose changelog comes from a server with scripted answers.
  private final class World {
    let cache: Cache
    private let store: CacheStore

    init() async throws {
      cache = try Cache(Cache.Configuration(directory: TestFolder.make("sparse") + "/data"))
      store = CacheStore(cache)
      try await store.acknowledge(alice)
    }

    func take(_ entry: String) async throws {
      let body = #"{"updated":[\#(entry)],"deleted":[],"has_more":false,"next":"T"}"#
      let server = RawServer { _ in
        .text("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
      }
      let client = HTTPClient()
      defer {
        client.close()
        server.close()
      }
      let upstream = SendbirdUpstream(
        SendbirdUpstream.Configuration(base: "http://127.0.0.1:\(server.port)/v3", token: "t"), client: client
      )
      let changes = try await upstream.channelChanges(of: alice, since: .time(0), hasMembers: true, .open)
      _ = try await store.store(
        changes.updated, of: alice, .changelog(deleted: changes.deleted, next: changes.next))
    }

    /// The channel's object as alice gets it: each field's JSON, but only the id of objects that have one.
    func object() throws -> [String: String]? {
      try cache.read { reader in
        guard let key = try reader.userKey(of: alice), let view = try reader.view(of: url, for: key),
          let object = try reader.channel(view, parts: [.members, .metadata])
        else { return nil }
        return try JSONParser().parse(object.bytes) { json in
          var fields: [String: String] = [:]
          for field in json.fields {
            var writer = JSONWriter()
            writer.value(field.value["message_id"] ?? field.value["user_id"] ?? field.value)
            fields[String(decoding: field.name, as: UTF8.self)] = String(
              decoding: writer.finish().array, as: UTF8.self)
          }
          return fields
        }
      }
    }

    /// The kinds of the events since then.
    func told(since sequence: Int64) throws -> [ChangeKind] {
      try cache.read { reader in
        guard let channel = try reader.channelKey(of: url),
          let user = try reader.userKey(of: SparseTests.alice)
        else {
          return []
        }
        let scope = LogScope(view: "none", of: user, in: channel)
        return try reader.changes(in: scope, after: sequence, limit: 100).map(\.change.kind)
      }
    }
  }

  /// The expected object, with only the fields that a test changes.
  private static func expected(second: Set<String>) -> [String: String] {
    var expected: [String: String] = [:]
    for field in fields {
      expected[field.name] = field.values.object[second.contains(field.wire) ? 1 : 0]
    }
    // Users read nothing before they have joined (B1).
    if !second.contains("member_state") { expected["last_message"] = nil }
    return expected
  }

  private static func expect(_ world: World, second: Set<String>, _ note: String) throws {
    var object = try #require(try world.object())
    for name in ["channel_url", "members", "my_last_read_at", "updated_at"] { object[name] = nil }
    let expected = expected(second: second)
    for name in Set(object.keys).union(expected.keys) {
      #expect(object[name] == expected[name], "\(name) (\(note))")
    }
  }

  @Test("B11: an entry that carries one field changes that field alone", arguments: fields)
  func alone(_ field: Field) async throws {
    let world = try await World()
    defer { world.cache.close() }
    try await world.take(Self.entry(Self.fields.map { ($0, false) }))
    try Self.expect(world, second: [], "the whole entry")
    let before = world.cache.cursor.sequence
    try await world.take(Self.entry([(field, false)]))
    #expect(try world.told(since: before) == [], "nothing is new")
    try await world.take(Self.entry([(field, true)]))
    try Self.expect(world, second: [field.wire], field.wire)
    #expect(try !world.told(since: before).isEmpty, "what changed is told")
    let after = world.cache.cursor.sequence
    try await world.take(Self.entry([]))
    try Self.expect(world, second: [field.wire], "an entry of no fields")
    #expect(try world.told(since: after) == [])
  }

  @Test(
    "B11: over seeds, whatever an entry leaves out stays as it was", arguments: 1...12 as ClosedRange<UInt64>)
  func anySubset(seed: UInt64) async throws {
    var random = Seeded(seed)
    let world = try await World()
    defer { world.cache.close() }
    try await world.take(Self.entry(Self.fields.map { ($0, false) }))
    var second: Set<String> = []
    for step in 0..<6 {
      let share = Int.random(in: 1...9, using: &random)
      let some = Self.fields.filter { _ in Int.random(in: 0..<10, using: &random) < share }.shuffled(
        using: &random)
      try await world.take(Self.entry(some.map { ($0, true) }))
      second.formUnion(some.map(\.wire))
      try Self.expect(world, second: second, "seed \(seed), step \(step)")
    }
  }

  @Test("B11: a channel first met through an entry that says little has every field the API promises")
  func firstMet() async throws {
    let world = try await World()
    defer { world.cache.close() }
    try await world.take(#"{"channel_url":"general","member_state":"joined","name":"New"}"#)
    let object = try #require(try world.object())
    #expect(object["name"] == #""New""# && object["member_count"] == "0" && object["is_frozen"] == "false")
    #expect(object["unread_message_count"] == "0" && object["hidden_state"] == #""unhidden""#)
    try await world.take(#"{"channel_url":"general","member_count":2,"created_at":1500000000}"#)
    let after = try #require(try world.object())
    #expect(
      after["name"] == #""New""# && after["member_count"] == "2" && after["created_at"] == "1500000000000")
  }

  @Test("B1 B11: an entry that does not say that the user is in the channel lets nobody in")
  func unknownState() async throws {
    let world = try await World()
    defer { world.cache.close() }
    try await world.take(#"{"channel_url":"general","name":"New","unread_message_count":3}"#)
    #expect(try world.object() == nil)
  }

  @Test("B11: of a member an entry may say little, and of others nothing")
  func members() async throws {
    let world = try await World()
    defer { world.cache.close() }
    let whole = """
      {"user_id":"bob","nickname":"Bob","profile_url":"p","metadata":{"k":"v"},"state":"invited",\
      "role":"operator","is_muted":true,"is_active":false}
      """
    try await world.take(
      #"{"channel_url":"general","member_state":"joined","member_count":2,"members":[\#(whole),{"user_id":"alice"}]}"#
    )
    let before = try #require(try world.object()?["members"])
    #expect(before.contains(#""state":"joined""#), "alice, of whom nothing was said")
    try await world.take(#"{"channel_url":"general","members":[{"user_id":"bob"}]}"#)
    #expect(try world.object()?["members"] == before, "nothing of bob was said, and alice is not gone")
    try await world.take(
      #"{"channel_url":"general","members":[{"user_id":"bob","nickname":"Bobby","is_muted":false}]}"#)
    let after = before.replacing("\"Bob\"", with: "\"Bobby\"")
      .replacing(#""is_muted":true"#, with: #""is_muted":false"#)
    #expect(try world.object()?["members"] == after)
    try await world.take(#"{"channel_url":"general","member_count":1,"members":[{"user_id":"alice"}]}"#)
    #expect(try world.object()?["members"]?.contains("bob") == false, "all were named")
  }

  @Test("B11 B68: a read position that comes without counts is no reason to keep them")
  func readElsewhere() async throws {
    let world = try await World()
    defer { world.cache.close() }
    try await world.take(
      """
      {"channel_url":"general","member_state":"joined","unread_message_count":4,"unread_mention_count":1,
      "last_message":\(Self.message(7, at: 1_600_000_000_000)),"user_last_read":1500000000000}
      """)
    #expect(try world.object()?["unread_message_count"] == "4")
    try await world.take(#"{"channel_url":"general","user_last_read":1500000000000}"#)
    #expect(try world.object()?["unread_message_count"] == "4", "it has not moved")
    try await world.take(#"{"channel_url":"general","user_last_read":1600000000000}"#)
    let object = try #require(try world.object())
    #expect(object["unread_message_count"] == "0" && object["unread_mention_count"] == "0")
    #expect(object["my_last_read_at"] == "1600000000000")
  }
}
