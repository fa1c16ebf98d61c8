import ChatModel
import Glibc
import MicroHTTP
import TestFolders
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// The real client and worker against recorded answers of a server, strictly: a request that differs from the
/// recorded ones is refused, and the test fails. docs/origin.md says how to record a real account.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct RecordedTests {
  private static let folder = "\(#filePath)".split(separator: "/").dropLast(3).map { "/" + $0 }.joined()
  private static let path = folder + "/Recorded/first-sync.jsonl"

  /// A first sync of two pages, news, a thread, members, a send, an edit, a deletion found by its id and one
  /// by the changelog, and a refused call.
  private func play(_ world: RecordedWorld) async throws {
    try await world.found()
    var ids: [Int64] = []
    for number in 0..<110 { ids.append(try await world.send("message \(number)")) }
    try await world.here.worker.start()
    let syncRequests = world.here.syncRequests
    _ = syncRequests.seen(RecordedWorld.alice)
    #expect(
      await World.wait { syncRequests.connection(of: RecordedWorld.alice).progress.phase == .steady })
    try #require(await World.wait { world.holdsAll() }, "the first sync brings all")
    syncRequests.opened(
      OpenView(id: "view", channel: RecordedWorld.channel, isAtNewest: true), isOwedAnswer: true)
    try await world.quiet()

    for number in 0..<3 {
      await world.note("message_send", try await world.send("reply \(number)", parent: ids[2]))
      try await world.quiet()
    }
    #expect(world.holdsAll(), "replies are listed")
    let thread = MessageSyncRequest(RecordedWorld.channel, .newest, thread: ids[2])
    #expect(await world.here.worker.fetch(thread) == .stored)
    #expect(await world.here.worker.fetchMembers(of: [RecordedWorld.channel]) == .stored)
    try await world.sendThroughPerch("recorded-send", "hello from here")
    try await world.quiet()

    try await world.edit(ids[4], "message 4, edited")
    await world.note("message_update", ids[4])
    try await world.quiet()
    #expect(world.holdsAll(), "an edit")
    try await world.delete(ids[5])
    await world.note("message_delete", ids[5])
    try await world.quiet()
    #expect(world.holdsAll(), "a deletion, told by a refused call")
    try await world.edit(ids[6], "message 6, edited")
    try await world.delete(ids[7])
    await world.note("message_send", try await world.send("the last one"))
    try await world.quiet()
    let newest = MessageSyncRequest(RecordedWorld.channel, .newest)
    #expect(await world.here.worker.fetch(newest) == .stored)
    #expect(world.holdsAll(), "what the changelog tells")
    let coverage = try world.here.channel(RecordedWorld.channel.text, from: .start)?.coverage
    #expect(coverage?.gaps.isEmpty == true)
  }

  private func replay(_ path: String) async throws {
    let server = try ReplayServer(path: path, listen: ListenAddress(host: "127.0.0.1", port: 0))
    let world = try RecordedWorld(port: try server.start(), token: "any")
    let failure: (any Error)?
    do {
      try await play(world)
      failure = nil
    } catch { failure = error }
    await world.end()
    #expect(server.unknown.isEmpty, "not recorded: \(server.unknown)")
    server.stop()
    if let failure { throw failure }
  }

  private func record(_ path: String, upstream: String, token: String) async throws {
    unlink(path)
    var configuration = RecordingProxy.Configuration(upstream: upstream, path: path)
    configuration.keepsIDs = true
    let proxy = try RecordingProxy(configuration)
    let world = try RecordedWorld(port: try proxy.start(), token: token)
    try await play(world)
    await world.here.stop()
    try await world.remove()
    await world.end()
    let report = proxy.stop()
    #expect(report.failure == nil && report.lost == 0)
  }

  @Test(
    "B13, B24, B25, B27: what was recorded leads to the cache that it tells of, by recorded requests alone")
  func recorded() async throws {
    try await replay(Self.path)
  }

  @Test("what is recorded now can be replayed, and holds no text and no key")
  func recordsAgain() async throws {
    let path = TestFolder.make("recorded") + "/again.jsonl"
    var configuration = OriginServer.Configuration()
    configuration.token = "the-secret-key"
    let origin = try OriginServer(configuration)
    defer { origin.stop() }
    try origin.start()
    try await record(path, upstream: origin.base, token: configuration.token)
    let text = try Recording(path: path).text
    for secret in [configuration.token, "message 1", "reply 1", "hello from here", "Recorded", "Of "] {
      #expect(!text.contains(secret), "\(secret) is in the recording")
    }
    try await replay(path)
  }

  @Test(
    "a recording of a real account, where one is named",
    .enabled(if: getenv("PERCH_RECORD_UPSTREAM") != nil))
  func recordAccount() async throws {
    let upstream = try #require(getenv("PERCH_RECORD_UPSTREAM").map { String(cString: $0) })
    let token = try #require(getenv("PERCH_RECORD_TOKEN").map { String(cString: $0) })
    try await record(Self.path, upstream: upstream, token: token)
    try await replay(Self.path)
  }
}
