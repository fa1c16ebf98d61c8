import ChatModel
import Platform
import Synchronization
import TestSupport
import Testing

@testable import ChatCache

/// Unsent rows that are too many for one commit are removed in slices: before everything is cleared by force,
/// and after their user was forgotten.
@Suite struct RemovingUnsentTests {
  private static let general = ChannelURL("general")
  private static let other = ChannelURL("other")

  /// 300 rows of alice's in two channels, and 20 of bob's. In `general` the first message failed and holds
  /// the others. The last rows are changes of a confirmed message.
  private static func filled() throws -> Cache {
    var configuration = Cache.Configuration(directory: try Disk.folder())
    configuration.mostCleared = 10
    let cache = try Cache(configuration)
    try OutboxTableTests.prepare(cache)
    try cache.accept { writer in
      let lane = OutboxLaneKey(user: UserKey(1), channel: general)
      var first = OutboxTableTests.request("g0")
      first.blocksOnFailure = true
      _ = try writer.accept(first, in: lane)
      try writer.changeLane(lane) {
        guard $0.dispatch(1, .send, now: writer.now) else { return [] }
        return $0.finish(1, .send, .rejection(code: "900100"), now: writer.now, random: 3)
      }
      for number in 1..<150 { _ = try writer.accept(OutboxTableTests.request("g\(number)"), in: lane) }
      for number in 0..<150 {
        var request = OutboxTableTests.request("o\(number)", number < 100 ? .message : .edit)
        if number >= 100 { request.target = 7 }
        _ = try writer.accept(request, in: OutboxLaneKey(user: UserKey(1), channel: other))
      }
      for number in 0..<20 {
        let bobs = OutboxLaneKey(user: UserKey(2), channel: general)
        _ = try writer.accept(OutboxTableTests.request("b\(number)"), in: bobs)
      }
    }
    return cache
  }

  /// What the commits showed, each read after it.
  private final class Seen: Sendable {
    let left = Guarded<[Int64]>([])
    let complaints = Guarded<[String]>([])

    init(_ cache: Cache) {
      cache.onCommit { [unowned cache] _ in
        do {
          let (rows, counted, released) = try cache.read { reader in
            (
              try reader.db.first("SELECT count(*) FROM outbox") { $0.int64(0) } ?? 0,
              try reader.unsentRows(),
              try reader.db.first(
                """
                SELECT count(*)
                FROM outbox
                WHERE user = 1 AND channel_url = 'general' AND state = 'waiting'
                """
              ) { $0.int64(0) } ?? 0
            )
          }
          self.left.withLock { $0.append(rows) }
          if rows != counted { self.complain("\(counted) are counted of \(rows)") }
          if released > 0 { self.complain("\(released) rows would be sent though a failed one holds them") }
        } catch { self.complain("\(error)") }
      }
    }

    private func complain(_ text: String) { complaints.withLock { $0.append(text) } }
  }

  private static func remove(
    _ cache: Cache, _ body: @escaping @Sendable (CacheWriter, _ last: Int64) throws -> Void
  ) async throws {
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
      cache.accept(afterRemovingUnsent: body) { continuation.resume(with: $0) }
    }
  }

  @Test("B37 B58: every commit removes a part, tells of it, and leaves the counts right")
  func everything() async throws {
    let cache = try Self.filled()
    defer { cache.close() }
    let (seen, before) = (Seen(cache), cache.cursor.sequence)
    let told = Guarded<Int64>(0)
    try await Self.remove(cache) { writer, last in
      let events = try writer.reader.db.first("SELECT count(*) FROM event WHERE seq > ?1 AND kind = ?2") {
        $0.bind(1, before)
        $0.bind(2, ChangeKind.outbox.rawValue)
      } _: {
        $0.int64(0)
      }
      told.withLock { $0 = events ?? 0 }
      try writer.clearAll(withUnsent: true, through: last)
    }
    #expect(seen.complaints.withLock { $0 } == [])
    let left = seen.left.withLock { $0 }
    #expect(left.count > 3 && left.last == 0, "\(left)")
    #expect(zip(left, left.dropFirst()).allSatisfy { $0 >= $1 }, "\(left)")
    #expect(told.withLock { $0 } >= 310)
    for name in ["g0", "g149", "o0", "o149", "b19"] {
      let user = UserKey(name.hasPrefix("b") ? 2 : 1)
      let status = try cache.read { try $0.status(of: RequestID(name)!, of: user) }
      #expect(["removed", "dropped"].contains(status?.end), "\(name): \(String(describing: status))")
    }
    #expect(try cache.check().findings.isEmpty)
  }

  @Test("B36 B58: a clear ends although rows keep coming, and leaves those; what follows a cleared row goes")
  func accepted() async throws {
    let cache = try Self.filled()
    defer { cache.close() }
    let lane = OutboxLaneKey(user: UserKey(2), channel: Self.general)
    let editLane = OutboxLaneKey(user: UserKey(1), channel: Self.other)
    // Alice's first message there is under way, and the edit that comes meanwhile follows it.
    try cache.accept { writer in
      let id = try #require(try writer.reader.lane(editLane).rows.first?.id)
      try writer.changeLane(editLane) {
        _ = $0.dispatch(id, .send, now: writer.now)
        return []
      }
    }
    let commits = Guarded(0)
    cache.onCommit { [unowned cache] _ in
      // Each slice removes twenty rows. As many come.
      let number = commits.withLock { count in
        count += 1
        return count
      }
      guard number <= 200 else { return }
      cache.accept { writer in
        for part in 0..<20 {
          _ = try writer.accept(OutboxTableTests.request("n\(number)-\(part)"), in: lane)
        }
        guard number == 1 else { return }
        var edit = OutboxTableTests.request("edit", .edit)
        edit.unsentTarget = RequestID("o0")
        _ = try writer.accept(edit, in: editLane)
      } finish: { _ in
      }
    }
    let after = Guarded(0)
    try await Self.remove(cache) { writer, last in
      try writer.clearAll(withUnsent: true, through: last)
      after.withLock { $0 = commits.withLock { $0 } }
    }
    #expect(after.withLock { $0 } < 100)
    try cache.read { reader in
      let gone = try reader.db.first(
        "SELECT count(*) FROM request WHERE request_id GLOB 'n*' AND ended_at IS NOT NULL"
      ) { $0.int64(0) }
      #expect(gone == 0)
      for name in ["o0", "o149", "edit"] {
        let status = try reader.status(of: RequestID(name)!, of: UserKey(1))
        #expect(status?.end != nil, "\(name)")
      }
      let old = try reader.db.first("SELECT count(*) FROM outbox WHERE request_id NOT GLOB 'n*'") {
        $0.int64(0)
      }
      #expect(old == 0)
    }
    #expect(try cache.check().findings.isEmpty)
  }

  @Test("B4 B5: a user with many unsent rows is unknown at once, nothing sends them, and they go in slices")
  func forgotten() throws {
    let cache = try Self.filled()
    defer { cache.close() }
    let alice = UserID("alice")
    try cache.accept { writer in
      #expect(try writer.forget(alice, isForced: true) == 0)
      // Before the first slice.
      let reader = writer.reader
      #expect(try reader.userKey(of: alice) == nil)
      #expect(try reader.waitingLanes(now: 0).map(\.lane.user) == [UserID("bob")])
      #expect(try reader.unsentRows() == 20 && reader.wrongUnsentCounts().isEmpty)
      #expect(try reader.unsentFaults().isEmpty)
      #expect(try reader.db.first("SELECT count(*) FROM outbox WHERE user = 1") { $0.int64(0) } == 300)
      // An expiry of all rows tells nobody of hers.
      try writer.db.execute("UPDATE outbox SET expires_at = 0 WHERE user = 1")
      let events = try writer.reader.lastChange()
      try writer.expireOutbox()
      #expect(try writer.reader.lastChange() == events)
    }
    try cache.accept { try $0.acknowledge(alice) }
    try cache.trim()
    let lanes = try cache.read { reader in
      try reader.db.all("SELECT DISTINCT user FROM outbox") { $0.int64(0) }
    }
    #expect(lanes == [2])
    #expect(try cache.read { try $0.unsent(of: UserKey(2)) } == (pending: 20, failed: 0))
    #expect(try cache.check().findings.isEmpty)
  }

  @Test("B58: wrong counts do not keep a clear from ending")
  func damaged() async throws {
    let cache = try Self.filled()
    defer { cache.close() }
    try cache.accept { writer in
      try writer.db.execute("UPDATE unsent_count SET pending = pending + 1000")
    }
    try await Self.remove(cache) { try $0.clearAll(withUnsent: true, through: $1) }
    #expect(try cache.read { try $0.unsentRows() } == 0)
    #expect(try cache.read { try !$0.hasUnsent() })
  }
}
