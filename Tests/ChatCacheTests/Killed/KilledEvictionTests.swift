import ChatModel
import Glibc
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import KilledWriter

/// A process that evicts and gives pages back is killed at random moments, again and again in one directory.
@Suite(.serialized, .timeLimit(.minutes(30))) struct KilledEvictionTests {
  /// The number of kills: PERCH_TORTURE_KILLS, else few.
  private static let kills = getenv("PERCH_TORTURE_KILLS").flatMap { Int(String(cString: $0)) } ?? 12
  private static let kept = ChannelURL("kept")

  /// Stores channels, one of them with an open view of all its messages, and an unsent message.
  private static func prepare(_ directory: String) throws {
    let cache = try Cache(Evicting.configuration(directory))
    defer { cache.close() }
    let alice = UserID("alice")
    try cache.write { writer in
      try writer.acknowledge(alice)
      let urls = (0..<4).map { ChannelURL("c\($0)") } + [kept]
      _ = try writer.store(urls.map { ChannelWithMessages.channel($0) }, of: alice, .listing(sweep: 1))
      try writer.endListing(of: alice)
      let rows = (1...20).map { Evicting.message($0, bytes: 100) }
      let listing = MessageListing(
        window: MessageWindow(.newest, older: 50, newer: 0), rows: rows, isWhole: true, askedAt: .max)
      _ = try writer.store([listing], in: kept, ListingContext(source: .apiResult, generation: 1))
      let user = try writer.reader.userKey(of: alice)!
      try writer.open(
        StoredCollection(
          id: "view", user: user, userID: alice, kind: .messages,
          channel: (try writer.reader.channelKey(of: kept)!, kept), query: Array("{}".utf8),
          loaded: Array(#"{"has_previous":false,"has_next":false}"#.utf8), accessedAt: 0))
      let content = OutboxContent(params: Array("{}".utf8), body: Array("\"message\":\"hi\"".utf8))
      let request = UnsentRequest(
        requestID: RequestID("r")!, kind: .message, content: content, contentHash: content.body)
      _ = try writer.accept(request, in: OutboxLaneKey(user: user, channel: kept))
    }
  }

  @Test("B57 B60: killed at any moment of a pass, the cache is sound, the spared is there, and the pass ends")
  func killed() throws {
    let directory = Disk.folder()
    try Self.prepare(directory)
    var random = SystemRandomNumberGenerator()
    var cutOff = 0
    for kill in 0..<Self.kills {
      let child = try Child(directory, mode: "evict")
      #expect(child.hear(Int.random(in: 1...3, using: &random)), "it ended by itself")
      usleep(UInt32.random(in: 0..<60_000, using: &random))  // the moment is what is tried
      #expect(child.die())
      let cache = try Cache(Evicting.configuration(directory))
      defer { cache.close() }
      if try cache.read({ try $0.isEvicting() }) { cutOff += 1 }
      let report = try cache.check()
      #expect(report.isSound, "kill \(kill): \(report.findings)")
      try cache.evict()
      #expect(try !cache.read { try $0.isEvicting() })
      try cache.shrink()
      let info = try cache.read { try $0.info(of: nil) }
      #expect(info.sizeBytes <= cache.limit.bytes && info.unsent == 1)
      let left = try cache.read { reader in
        try reader.cachedChannels(of: nil, by: .messages, isDescending: false, limit: 10).first {
          $0.url == Self.kept
        }?.messages
      }
      #expect(left == 20, "kill \(kill): what a view shows went")
      #expect(try cache.check().isSound, "kill \(kill)")
    }
    print("\(Self.kills) kills, \(cutOff) within a pass")
  }
}
