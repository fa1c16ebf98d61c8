import ChatCache
import ChatModel
import Glibc
import MicroHTTP
import Platform
import Synchronization
import TestFolders
import Testing

@testable import ChatAPI

/// The same request for a page again, with the page's tag: the 304 is remembered, and given only as long as
/// the handler would give it.
@Suite(.timeLimit(.minutes(5))) struct AskedAgainTests {
  private static let path = "/v1/channels/general/messages?limit=3"

  /// Tokens with a secret in a file, and a wall clock that the test sets.
  private final class Setting {
    let world: CollectionWorld
    let keyring: Keyring
    let file: SecretFile
    private let time: Time

    private final class Time: Sendable {
      let now = Atomic<Int64>(Clock.system.wallMilliseconds())
    }

    init() throws {
      file = SecretFile(inDataDirectory: TestFolder.make("secret"))
      keyring = try Keyring(file: file)
      let time = Time()
      self.time = time
      let clock = Clock(
        wallMilliseconds: { time.now.load(ordering: .relaxed) },
        monotonicNanoseconds: Clock.system.monotonicNanoseconds)
      world = try CollectionWorld(gate: Gate(.tokens(keyring), clock: clock), clock: clock)
      try world.join("alice", "general")
      try world.list([1, 2, 3, 4, 5], in: "general")
    }

    deinit { world.stop() }

    func pass(milliseconds: Int64) { time.now.add(milliseconds, ordering: .relaxed) }

    /// A connection of the user's, with a token that is valid for `seconds`.
    func line(_ user: String = "alice", seconds: Int64 = 3600) -> Line {
      let expires = time.now.load(ordering: .relaxed) / 1000 + seconds
      let token = BearerToken(user: user, scopes: .chat, expires: expires)
      return Line(
        world.server, headers: "Authorization: Bearer \(token.signed(with: keyring.now.secrets))\r\n")
    }

    /// The page's tag, after several 304s for it on that connection.
    func known(_ line: Line) throws -> String {
      let tag = try #require(line.get(AskedAgainTests.path)["ETag"])
      let answers = (0..<3).map { _ in line.get(AskedAgainTests.path, tag: tag) }
      #expect(answers.allSatisfy { $0.status == 304 && $0["ETag"] == tag })
      #expect(answers.allSatisfy { $0["Cache-Status"] == "perch; hit" && $0["Vary"] == "Authorization" })
      #expect(Set(answers.map { $0["X-Request-Id"] }).count == 3)
      return tag
    }
  }

  @Test("what is sent, edited and deleted is told at once to who asks in the same words")
  func changes() throws {
    let setting = try Setting()
    let line = setting.line()
    var tag = try setting.known(line)
    let changes: [(CollectionWorld) throws -> Void] = [
      { try $0.send(6, in: "general") }, { try $0.send(6, in: "general", text: "other", updatedAt: 99) },
      { try $0.delete(6, in: "general") },
    ]
    for change in changes {
      try change(setting.world)
      let answer = line.get(Self.path, tag: tag)
      #expect(answer.status == 200)
      tag = try setting.known(line)
    }
  }

  @Test("B1: who left the channel gets 404, whatever was answered before")
  func left() throws {
    let setting = try Setting()
    let line = setting.line()
    let tag = try setting.known(line)
    try setting.world.leave("alice", "general")
    #expect(line.get(Self.path, tag: tag).status == 404)
    try setting.world.join("alice", "general", floor: 35)
    let back = line.get(Self.path, tag: tag)
    #expect(back.status == 200 && !back.body.contains(#""message_id":"3""#))
  }

  @Test("B61: a token that has ended and a secret that was withdrawn are 401, whatever was answered before")
  func ended() throws {
    let setting = try Setting()
    setting.world.syncRequests.tell { $0.pollInterval = 3_600_000 }
    let (short, long) = (setting.line(seconds: 60), setting.line())
    let tag = try setting.known(short)
    _ = try setting.known(long)
    setting.pass(milliseconds: 59_000)
    #expect(short.get(Self.path, tag: tag).status == 304)
    setting.pass(milliseconds: 1_000)
    #expect(short.get(Self.path, tag: tag).status == 401)
    #expect(long.get(Self.path, tag: tag).status == 304)
    try setting.world.replaceSecret(setting.file)
    try setting.keyring.reread()
    #expect(long.get(Self.path, tag: tag).status == 401)
  }

  @Test("B2: a user who is refused is so in the same words too")
  func refused() throws {
    let setting = try Setting()
    let line = setting.line()
    let tag = try setting.known(line)
    setting.world.syncRequests.tell {
      $0.admissions[UserID("alice")] = .refused(.unreachable(.unreachable, retryAfter: 1000))
    }
    #expect(line.get(Self.path, tag: tag).status == 503)
  }

  @Test("B25: a link that is lost and a tail that grew old are told as they are")
  func stale() throws {
    let setting = try Setting()
    let line = setting.line()
    let tag = try setting.known(line)
    setting.pass(milliseconds: 61_000)
    setting.world.syncRequests.tell { $0.onFetch = { _ in .late } }
    let stale = line.get(Self.path, tag: tag)
    #expect(stale.status == 200 && stale.body.contains(#""state":"stale""#))
    setting.world.syncRequests.tell { $0.link = LinkStatus(.offline(.unreachable), generation: 2) }
    let offline = line.get(Self.path, tag: tag)
    #expect(offline.status == 200 && offline.body.contains(#""state":"offline""#))
    let known = try #require(offline["ETag"])
    for _ in 0..<3 {
      let answer = line.get(Self.path, tag: known)
      #expect(answer.status == 304 && answer["Cache-Status"] == "perch; hit; detail=offline")
    }
  }

  @Test("B15: a 304 after a fetch that failed is not remembered: the same words are a new try")
  func failed() throws {
    let setting = try Setting()
    let line = setting.line()
    let path = "/v1/channels/general/messages?limit=9"
    let gone = SyncOutcome.failed(.unreachable(.unreachable, retryAfter: 1000))
    setting.world.syncRequests.tell { $0.onFetch = { _ in gone } }
    let tag = try #require(line.get(path)["ETag"])
    let asked = setting.world.syncRequests.calls.count
    for _ in 0..<3 { #expect(line.get(path, tag: tag).status == 304) }
    #expect(setting.world.syncRequests.calls.count >= asked + 3)
  }

  @Test("B67: one user's words with another's token are another question")
  func others() throws {
    let setting = try Setting()
    try setting.world.join("bob", "general")
    let (alice, bob, eve) = (setting.line(), setting.line("bob"), setting.line("eve"))
    let tag = try setting.known(alice)
    #expect(bob.get(Self.path, tag: tag).status == 200)
    #expect(eve.get(Self.path, tag: tag).status == 404)
    #expect(alice.get(Self.path, tag: tag).status == 304)
  }
}
