import ChatCache
import ChatModel
import Glibc
import Platform
import SQLite
import TestSupport
import Testing

@testable import ChatSync
@testable import Origin

/// Storms of answers that disagree: stale, empty, lagging, shuffled, spoiled, refused with other errors. A
/// checker watches the cache meanwhile: covered segments must have every message that the upstream has.
/// `PERCH_TORTURE_DISAGREEMENTS` sets how many seeds are tried (400), or which (61-120);
/// `PERCH_TORTURE_DISAGREEMENT` names one.
@Suite(.timeLimit(.minutes(60)), .serialized)
struct DisagreeingStormTests {
  static var seeds: [Int] {
    if let one = StormTests.number("PERCH_TORTURE_DISAGREEMENT") { return [one] }
    return Array(StormTests.range("PERCH_TORTURE_DISAGREEMENTS") ?? 1...3)
  }

  private static let urls = (0..<4).map { "c\($0)" }
  private static let listing = "/v3/group_channels/*/messages"

  private static func faults(_ random: inout Seeded) -> [Value] {
    func milliseconds(_ most: Int64) -> Value { .integer(Int64.random(in: 20...most, using: &random)) }
    let spoils: Value = .array([.string("missing"), .string("null"), .string("numbers_as_strings")])
    let denial = [400302, 400303, 400301, 400105, 400401].randomElement(using: &random) ?? 400302
    let kinds: [[String: Value]] = [
      ["kind": .string("stale_page"), "path": .string(listing), "milliseconds": milliseconds(400)],
      ["kind": .string("stale_page"), "path": .string(listing), "milliseconds": milliseconds(400)],
      ["kind": .string("empty_page"), "path": .string(listing)],
      ["kind": .string("empty_page"), "path": .string("/v3/users/*/my_group_channels")],
      ["kind": .string("lagging_listing"), "path": .string(listing), "milliseconds": milliseconds(300)],
      ["kind": .string("reorder_page"), "path": .string("/v3/*")],
      ["kind": .string("deny"), "path": .string("*/changelogs"), "code": .integer(Int64(denial))],
      ["kind": .string("strict_words"), "path": .string("/v3/*")],
      ["kind": .string("no_member_view"), "path": .string("/v3/*")],
      ["kind": .string("foreign_items"), "path": .string(listing), "spoils": spoils],
      ["kind": .string("cut_page"), "path": .string("/v3/*")],
      ["kind": .string("unstable_ties"), "path": .string(listing)],
    ]
    let drawn: [Value] = (0..<Int.random(in: 1...3, using: &random)).compactMap { _ in
      var fault = kinds.randomElement(using: &random)
      fault?["probability"] = .double(Double.random(in: 0.2...0.9, using: &random))
      return fault.map { .object($0) }
    }
    // A page that is shorter than requested and ends inside a tie looks like a complete one.
    let areTiesUnstable = drawn.contains { $0["kind"] == .string("unstable_ties") }
    return areTiesUnstable ? drawn.filter { $0["kind"] != .string("cut_page") } : drawn
  }

  @Test(
    "B24, B27: whatever answers say, nothing is lost and nothing is called covered that is not",
    arguments: seeds)
  func storm(seed: Int) async throws {
    var random = Seeded(UInt64(seed) &+ 77 << 40)
    let there = try OriginSide(hasWebhooks: Bool.random(using: &random))
    defer { there.stop() }
    for url in Self.urls {
      try there.makeChannel(url, ["alice", "bob", "carol"])
      // Twelve messages share each millisecond, so that there are ties.
      for number in 0..<Int.random(in: 0...220, using: &random) {
        there.send(url, "old", at: 1_700_000_000_000 + Int64(number / 12))
      }
    }
    let here = try PerchSide(there.url, firstByte: Int(2_000 * patience), seed: seed)
    defer { if getenv("PERCH_STORM_KEEP") == nil { here.remove() } }
    try await here.worker.start()
    there.receiver.withLock { $0 = here.worker }
    _ = here.syncRequests.seen(UserID("alice"))
    look(at: Self.urls.prefix(2), here)
    var checker = Checker(urls: Self.urls)
    var rounds = 0
    // On a slow machine, or with many refusals, it takes longer until any segment is covered.
    while rounds < 15 || checker.looked == 0 && rounds < 150 {
      rounds += 1
      try there.set(OriginSide.Weather(), Self.faults(&random), seed: Int64(random.next() % 1_000_000))
      for _ in 0..<Int.random(in: 0...25, using: &random) { there.act(Self.urls, &random) }
      let position = there.position(of: "c3", &random)
      here.syncRequests.fetch(
        MessageSyncRequest(ChannelURL("c3"), .older(than: position, rows: 60)), for: UserID("alice"),
        within: 1_000
      ) { _ in
      }
      for _ in 0..<6 {
        try checker.look(there, here)
        try await Task.sleep(for: .milliseconds(20))
      }
    }
    #expect(checker.faults.isEmpty, "seed \(seed): \(checker.faults.prefix(3))")
    #expect(checker.looked > 0, "seed \(seed): nothing was covered")
    try there.calm(OriginSide.Weather())
    here.syncRequests.urge()
    let mine = try await there.channels(of: "alice")
    #expect(await World.wait { (try? here.memberships(of: "alice").map(\.url)) == mine }, "seed \(seed)")
    look(at: mine[...], here)
    let comparison = try Comparison(there, listsReplies: true)
    var difference: String?
    let isEqual = await World.wait(seconds: 15) {
      do { difference = try await comparison.difference(here) } catch { difference = "\(error)" }
      return difference == nil
    }
    comparison.close()
    #expect(isEqual, "seed \(seed): \(difference ?? "")")
    there.receiver.withLock { $0 = nil }
    await here.stop()
  }

  private func look(at urls: ArraySlice<String>, _ here: PerchSide) {
    for url in urls {
      here.syncRequests.opened(
        OpenView(id: "v-" + url, channel: ChannelURL(url), isAtNewest: true), isOwedAnswer: true)
    }
  }

  /// Compares the covered segments of the cache with the upstream's messages.
  private struct Checker {
    let urls: [String]
    private(set) var faults: [String] = []
    private(set) var looked = 0

    init(urls: [String]) { self.urls = urls }

    mutating func look(_ there: OriginSide, _ here: PerchSide) throws {
      for url in urls {
        let before = try Checker.truth(there, url)
        guard let (rows, coverage) = try here.channel(url, from: .start) else { continue }
        let after = Set(try Checker.truth(there, url))
        let stored = Set(rows.map(\.position))
        for position in before where after.contains(position) && !stored.contains(position) {
          let segment = coverage.segments.first { $0.range.contains(position) }
          guard let segment, segment.content == .covered(isUnverified: false) else { continue }
          faults.append("\(url): \(position) is missing in \(segment.range)")
        }
        looked += rows.count
      }
    }

    /// The positions of the channel's messages upstream.
    private static func truth(_ there: OriginSide, _ url: String) throws -> [Position] {
      try there.origin.store.read { db, _ in
        try db.all(
          "SELECT m.created_at, m.id FROM message m JOIN channel c ON c.id = m.channel WHERE c.url = ?1"
        ) {
          $0.bind(1, url)
        } _: {
          Position(createdAt: $0.int64(0), messageID: $0.int64(1))
        }
      }
    }
  }
}
