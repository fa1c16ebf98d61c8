import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// A stop in the middle of a first sync.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct StopTests {
  @Test(
    "a stop takes at most 2 s, while channels are listed and while the chat server is silent",
    arguments: [false, true])
  func stop(isSilent: Bool) async throws {
    let there = try OriginSide(hasWebhooks: false)
    for number in 0..<60 {
      try there.makeChannel("c\(number)", ["alice", "bob"])
      for text in 0..<20 { there.send("c\(number)", "text \(text)") }
    }
    let here = try PerchSide(there.url)
    try await here.worker.start()
    _ = here.syncRequests.seen(UserID("alice"))
    func rows() throws -> Int {
      try here.cache.read { try $0.db.first("SELECT count(*) FROM message") { $0.int(0) } ?? 0 }
    }
    #expect(await World.wait { (try? rows()) ?? 0 > 100 })
    if isSilent {
      let dark: [String: Value] = ["kind": .string("dark"), "path": .string("/v3/*")]
      try there.set(OriginSide.Weather(), [.object(dark)], seed: 1)
      try await Task.sleep(for: .milliseconds(300))
    }
    let began = ContinuousClock.now
    await here.stop()
    let took = ContinuousClock.now - began
    #expect(took < .seconds(2 * patience), "\(took)")
    here.remove()
    there.stop()
  }
}
