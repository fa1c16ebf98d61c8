import ChatModel
import Platform
import SQLite
import TestSupport
import Testing

@testable import ChatCache

/// Writes that share a commit store what they would store in commits of their own. A send of a batch uses
/// what the send before it read, and that must not be stale.
@Suite struct OneBatchTests {
  /// One write, drawn from a seed.
  private enum Step: Sendable {
    case send(String, byBob: Bool, blocks: Bool, thenFails: Bool)
    case repeated(String, text: String)
    case edit(String, of: String)
    case read(String)
    case takeBack(String)
    case failAll
    case removeFailed
    case sql(StaticString)
  }

  private struct GivenUp: Error {}

  private static let policy: OutboxPolicy = {
    var policy = OutboxPolicy()
    policy.maximumUnsent = 6
    return policy
  }()
  private static let lane = OutboxLaneKey(user: UserKey(1), channel: ChannelURL("general"))

  private static func steps(seed: UInt64) -> [Step] {
    var random = SeededRandom(seed: seed)
    var names: [String] = ["none"]
    return (0..<30).map { number in
      let name = "r\(number)"
      defer { names.append(name) }
      switch Int.random(in: 0..<23, using: &random) {
      case 0..<10:
        return .send(
          name, byBob: random.chance(15), blocks: random.chance(20), thenFails: random.chance(15))
      case 10: return .repeated(random.one(of: names), text: random.chance(50) ? "hello" : "other")
      case 11: return .edit(name, of: random.one(of: names))
      case 12, 13: return .takeBack(random.one(of: names))
      case 14: return .failAll
      case 15: return .removeFailed
      case 16: return .sql("UPDATE membership SET is_muted = 1 - is_muted WHERE user = 1")
      case 17:
        return .sql(
          """
          UPDATE channel
          SET body = CASE
            WHEN body LIKE '%max_message%' THEN CAST('"name":"a"' AS BLOB)
            ELSE CAST('"max_message_length":4' AS BLOB)
          END
          """)
      case 18: return .sql("UPDATE member SET body = CAST('\"nickname\":\"' || length(body) || '\"' AS BLOB)")
      case 19: return .sql("UPDATE outbox SET place = place + 5 WHERE id = (SELECT max(id) FROM outbox)")
      default: return .read(name)
      }
    }
  }

  private static func request(_ name: String, _ text: String = "hello") -> UnsentRequest {
    var request = OutboxTableTests.request(name, .message, #"{"type":"user","message":"\#(text)"}"#)
    request.textLength = text.count
    return request
  }

  /// Runs one step; its result as text. A step that throws changes nothing.
  private static func run(_ step: Step, _ writer: CacheWriter) throws -> String {
    var result = ""
    do {
      try writer.item { try writer.db.savepoint { result = try attempt(step, writer) } }
    } catch {
      return "\(error)"
    }
    return result
  }

  private static func attempt(_ step: Step, _ writer: CacheWriter) throws -> String {
    let (alice, bob, url) = (UserID("alice"), UserID("bob"), lane.channel)
    switch step {
    case .send(let name, let byBob, let blocks, let thenFails):
      var request = request(name)
      request.sender = byBob ? bob : alice
      request.blocksOnFailure = blocks
      let accepted = try writer.accept(request, of: byBob ? bob : alice, in: url, policy)
      if thenFails { throw GivenUp() }
      return "\(accepted)"
    case .repeated(let name, let text):
      return "\(try writer.accept(request(name, text), of: alice, in: url, policy))"
    case .edit(let name, let target):
      var edit = OutboxTableTests.request(name, .edit, #"{"message":"new"}"#)
      edit.unsentTarget = RequestID(target)
      return "\(try writer.accept(edit, of: alice, in: url, policy))"
    case .read(let name):
      let read = OutboxTableTests.request(name, .read, "{}")
      return "\(try writer.accept(read, of: alice, in: url, policy))"
    case .takeBack(let name):
      return "\(String(describing: try writer.takeBack(#require(RequestID(name)), in: lane)))"
    case .failAll:
      let moment = try writer.outboxMoment()
      return "\(try writer.changeLane(lane) { $0.failAll(code: "900041", now: moment) })"
    case .removeFailed: return "\(try writer.removeFailed(in: lane))"
    case .sql(let sql): return "\(try writer.db.run(sql))"
    }
  }

  private static func world() throws -> ChannelWithMessages {
    let clock = Clock(
      wallMilliseconds: { 1_000_000 }, monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    let world = try ChannelWithMessages(clock: clock)
    try world.cache.write { writer in
      _ = try writer.db.run(
        """
        INSERT OR REPLACE INTO member (channel, user_id, nickname_key, state, body)
        SELECT id, 'alice', 'alice', 'joined', CAST('"nickname":"Alice"' AS BLOB)
        FROM channel
        """)
    }
    return world
  }

  /// Everything that the steps may change, as text.
  private static func contents(of cache: Cache) throws -> [String] {
    try cache.read { reader in
      try reader.db.all(
        """
        SELECT 'outbox ' || json_array(
          id, user, channel_url, request_id, kind, state, place, follows, CAST(params AS TEXT),
          CAST(body AS TEXT), block_on_failure, accepted_at, expires_at, next_try_at, error_code)
        FROM outbox
        UNION ALL
        SELECT 'request ' || json_array(user, request_id, ended_as, row)
        FROM request
        UNION ALL
        SELECT 'count ' || json_array(user, pending, failed, canceled)
        FROM unsent_count
        UNION ALL
        SELECT 'event ' || json_array(seq, kind, source, channel, user, reference, detail)
        FROM event
        UNION ALL
        SELECT 'membership ' || json_array(user, version)
        FROM membership
        """
      ) { $0.string(0) }
    }
  }

  @Test("B36 B67: sends that share a commit store what they would store in commits of their own")
  func together() throws {
    var accepted = 0
    for seed in UInt64(1)...20 {
      let steps = Self.steps(seed: seed)
      let (one, many) = (try Self.world(), try Self.world())
      defer {
        one.cache.close()
        many.cache.close()
      }
      let results = try one.cache.accept { writer in try steps.map { try Self.run($0, writer) } }
      let expected = try steps.map { step in try many.cache.accept { try Self.run(step, $0) } }
      #expect(results == expected, "seed \(seed)")
      #expect(try Self.contents(of: one.cache) == Self.contents(of: many.cache), "seed \(seed)")
      accepted += expected.filter { $0.hasPrefix("row(") }.count
    }
    #expect(accepted > 100)
  }
}
