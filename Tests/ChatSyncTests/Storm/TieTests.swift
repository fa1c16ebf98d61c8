import ChatCache
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatSync
@testable import Origin

/// A server that orders the messages of one millisecond anew in each answer: no message that it did not list
/// counts as covered, and yet all messages are found (B24, B28).
@Suite(.timeLimit(.minutes(5)), .serialized)
struct TieTests {
  private static let url = ChannelURL("c0")
  private static let start: Int64 = 1_700_000_000_000

  private func shuffle(_ there: OriginSide, seed: Int64) throws {
    let fault: [String: Value] = ["kind": .string("unstable_ties"), "path": .string("/v3/*")]
    try there.set(OriginSide.Weather(), [.object(fault)], seed: seed)
  }

  /// The positions that are missing in covered segments of the cache.
  private func missing(_ sides: Sides) throws -> [Position] {
    guard let (rows, coverage) = try sides.here.channel("c0", from: .start) else { return [] }
    let truth = try sides.there.origin.store.read { db, _ in
      try db.all("SELECT created_at, id FROM message") {
        Position(createdAt: $0.int64(0), messageID: $0.int64(1))
      }
    }
    return Set(truth).subtracting(rows.map(\.position)).sorted().filter { position in
      coverage.segments.contains {
        $0.range.contains(position) && $0.content == .covered(isUnverified: false)
      }
    }
  }

  private func isWhole(_ sides: Sides) throws -> Bool {
    guard let (rows, coverage) = try sides.here.channel("c0", from: .start) else { return false }
    let count = try sides.there.origin.store.read { db, _ in
      try db.first("SELECT count(*) FROM message") { $0.int(0) }
    }
    return rows.count == count && coverage.gaps.isEmpty
  }

  private func newestGap(_ sides: Sides) throws -> ClosedRange<Position>? {
    try sides.here.channel("c0", from: .start)?.coverage.gaps.last?.range
  }

  @Test("B24: paging back from any message, through ties cut anywhere, misses none", arguments: 0..<6)
  func back(seed: UInt64) async throws {
    var random = Seeded(seed)
    let sides = try Sides(messages: 0)
    // Ties of 1 to 12, so that pages are cut inside them.
    var (time, left) = (Self.start, 0)
    for number in 0..<520 {
      if left == 0 { (time, left) = (time + 1, Int.random(in: 1...12, using: &random)) }
      sides.there.send("c0", "old \(number)", at: time)
      left -= 1
    }
    try shuffle(sides.there, seed: Int64(seed))
    try await sides.open()
    for _ in 0..<40 where try !isWhole(sides) {
      let position = sides.there.position(of: "c0", &random)
      let rows = Int.random(in: 1...100, using: &random)
      let stretch: MessageSyncRequest.Stretch =
        Bool.random(using: &random) ? .older(than: position, rows: rows) : .newer(than: position, rows: rows)
      _ = await sides.here.worker.fetch(MessageSyncRequest(Self.url, stretch))
      #expect(try missing(sides).isEmpty, "after \(stretch)")
    }
    while let top = try newestGap(sides) {
      _ = await sides.here.worker.fetch(
        MessageSyncRequest(Self.url, .older(than: top.upperBound.next, rows: 100)))
      let after = try newestGap(sides)
      #expect(after != top, "paging goes on below \(top)")
      if after == top { break }
    }
    #expect(try missing(sides).isEmpty)
    #expect(try isWhole(sides))
    await sides.end()
  }

  @Test(
    "B28: what came while the network was gone is found, also in the newest millisecond", arguments: 0..<6)
  func away(seed: UInt64) async throws {
    let sides = try Sides(messages: 0)
    for number in 0..<60 { sides.there.send("c0", "old \(number)", at: Self.start + Int64(number / 9)) }
    try shuffle(sides.there, seed: Int64(seed))
    try await sides.open()
    #expect(await World.wait { (try? isWhole(sides)) == true })
    await sides.lose()
    for number in 60..<260 { sides.there.send("c0", "new \(number)", at: Self.start + Int64(number / 9)) }
    sides.heal()
    #expect(await World.wait { (try? isWhole(sides)) == true })
    #expect(try missing(sides).isEmpty)
    await sides.end()
  }

  @Test(
    "B24: a millisecond of more messages than a page holds is not called covered; once ordered, it is whole")
  func full() async throws {
    let sides = try Sides(messages: 0)
    for number in 0..<20 { sides.there.send("c0", "before \(number)", at: Self.start + Int64(number)) }
    for number in 0..<250 { sides.there.send("c0", "tie \(number)", at: Self.start + 100) }
    for number in 0..<20 { sides.there.send("c0", "after \(number)", at: Self.start + 200 + Int64(number)) }
    try shuffle(sides.there, seed: 5)
    try await sides.open()
    for position in [0, 100, 101, 200, 300] {
      for stretch: MessageSyncRequest.Stretch in [
        .older(than: Position(createdAt: Self.start + Int64(position), messageID: 120), rows: 50),
        .newer(than: Position(createdAt: Self.start + Int64(position), messageID: 120), rows: 50),
        .around(Self.start + Int64(position), older: 30, newer: 30),
      ] {
        _ = await sides.here.worker.fetch(MessageSyncRequest(Self.url, stretch))
        #expect(try missing(sides).isEmpty, "after \(stretch)")
      }
    }
    try sides.there.calm(OriginSide.Weather())
    for _ in 0..<20 where try !isWhole(sides) {
      guard let low = try sides.here.channel("c0", from: .start)?.coverage.gaps.last?.range else { break }
      _ = await sides.here.worker.fetch(
        MessageSyncRequest(Self.url, .older(than: low.upperBound.next, rows: 100)))
    }
    #expect(try isWhole(sides))
    #expect(try missing(sides).isEmpty)
    await sides.end()
  }

  /// 20 messages, then 250 in one millisecond, then `newer` ones. Those before and after each have a
  /// millisecond of their own.
  private func around(_ newer: Int) throws -> Sides {
    let sides = try Sides(messages: 0)
    for number in 0..<20 { sides.there.send("c0", "before \(number)", at: Self.start + Int64(number)) }
    for number in 0..<250 { sides.there.send("c0", "tie \(number)", at: Self.start + 100) }
    for number in 0..<newer {
      sides.there.send("c0", "after \(number)", at: Self.start + 200 + Int64(number))
    }
    return sides
  }

  @Test("B33: prefetch goes on into a millisecond of more messages than a page holds")
  func prefetchedThrough() async throws {
    let sides = try around(30)
    try await sides.open()
    #expect(await World.wait { (try? sides.here.channel("c0", from: .start)?.rows.count) ?? 0 >= 150 })
    #expect(try missing(sides).isEmpty)
    await sides.end()
  }

  @Test(
    "B24: from a message beside a millisecond of more messages than a page holds a client pages through it",
    arguments: [true, false])
  func pagedThrough(isOlder: Bool) async throws {
    // So many newer messages that the newest page and prefetch do not reach the millisecond.
    let sides = try around(400)
    try await sides.open()
    let (below, above) = (Self.start + 19, Self.start + 200)
    let near = isOlder ? above : below
    let id = try #require(
      try sides.there.origin.store.read { db, _ in
        try db.first("SELECT id FROM message WHERE created_at = ?1") {
          $0.bind(1, near)
        } _: {
          $0.int64(0)
        }
      })
    let first = Position(createdAt: near, messageID: id)
    var stretch: [Position] = []
    for _ in 0..<6 {
      let position = (isOlder ? stretch.first : stretch.last) ?? first
      _ = await sides.here.worker.fetch(
        MessageSyncRequest(
          Self.url, isOlder ? .older(than: position, rows: 100) : .newer(than: position, rows: 100)))
      guard let (rows, coverage) = try sides.here.channel("c0", from: .start) else { continue }
      let end = Position(createdAt: Self.start + 100, messageID: isOlder ? .max : .min)
      let range = coverage.segment(at: end).range
      stretch = rows.map(\.position).filter { range.contains($0) }
    }
    #expect(stretch.filter { $0.createdAt == Self.start + 100 }.count == 250)
    #expect(stretch.contains { isOlder ? $0.createdAt <= below : $0.createdAt >= above })
    #expect(try missing(sides).isEmpty)
    await sides.end()
  }
}
