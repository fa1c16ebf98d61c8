import ChatModel
import Platform
import Testing

@testable import ChatCache
@testable import ChatSync

/// Perch over a real cache file and the stand-in upstream over real sockets, with one channel and one user.
struct Sides {
  let there: OriginSide
  let here: PerchSide

  /// `seed`: a multiple of four makes every channel crowded.
  init(messages: Int, pace: Pace = PerchSide.pace, hasWebhooks: Bool = false, seed: Int = 3) throws {
    there = try OriginSide(hasWebhooks: hasWebhooks)
    try there.makeChannel("c0", ["alice", "bob", "carol"])
    // Twelve messages share each millisecond, so that there are ties.
    for number in 0..<messages {
      there.send("c0", "old \(number)", at: 1_700_000_000_000 + Int64(number / 12))
    }
    here = try PerchSide(there.url, pace: pace, seed: seed)
  }

  /// Starts, connects, opens a view on the newest end and waits for its first answer.
  func open() async throws {
    try await here.worker.start()
    _ = here.syncRequests.seen(UserID("alice"))
    #expect(await World.wait { here.syncRequests.connection(of: UserID("alice")).progress.phase == .steady })
    here.syncRequests.opened(
      OpenView(id: "view", channel: ChannelURL("c0"), isAtNewest: true), isOwedAnswer: true)
    #expect(await World.wait { (try? events(.collectionAnswered)) == 1 })
  }

  func lose() async {
    there.isCutOff = true
    #expect(await World.wait { here.syncRequests.link.isOffline })
  }

  func heal() {
    there.isCutOff = false
    here.syncRequests.urge()
  }

  func events(_ kind: ChangeKind, _ source: ChangeSource? = nil) throws -> Int {
    try here.cache.read { reader in
      try reader.db.first("SELECT count(*) FROM event WHERE kind = ?1 AND source = coalesce(?2, source)") {
        $0.bind(1, kind.rawValue)
        $0.bind(2, source?.rawValue)
      } _: {
        $0.int(0)
      } ?? 0
    }
  }

  /// The number of webhook notes about which the upstream was not asked yet.
  var noted: Int {
    get throws {
      try here.cache.read { try $0.db.first("SELECT count(*) FROM webhook_note") { $0.int(0) } ?? 0 }
    }
  }

  var gaps: [Gap] {
    do { return try here.channel("c0", from: .start)?.coverage.gaps.compactMap(\.gap) ?? [] } catch {
      return []
    }
  }

  /// Waits until cache and upstream have the same, and records the difference if they do not become equal.
  func expectEqual(_ why: String = "", at location: SourceLocation = #_sourceLocation) async throws {
    let comparison = try Comparison(there, listsReplies: true)
    defer { comparison.close() }
    var difference: String?
    let isEqual = await World.wait {
      do { difference = try await comparison.difference(here) } catch { difference = "\(error)" }
      return difference == nil
    }
    if !isEqual { Issue.record("\(difference ?? "") \(why)", sourceLocation: location) }
  }

  func end() async {
    await here.stop()
    here.remove()
    there.stop()
  }
}

extension WorkerRequests {
  /// Tries an offline link at once.
  func urge() { Task { [worker] in await worker.urge() } }
}
