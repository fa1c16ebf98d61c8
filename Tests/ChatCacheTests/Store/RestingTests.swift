import Glibc
import Platform
import Testing

@testable import ChatCache

/// How the writer makes room for clients that read.
@Suite(.timeLimit(.minutes(5))) struct RestingTests {
  /// The number of rounds, of 20, in which a promise that came 3 ms after derived work was written before it,
  /// right after a batch of 15 ms.
  private static func promisesFirst(isRead: Bool) throws -> Int {
    let world = try ChannelWithMessages()
    let (cache, alice, url) = (world.cache, world.alice, world.url)
    var count = 0
    for _ in 0..<20 {
      let order = Guarded<[String]>([])
      try cache.write { _ in
        if isRead { _ = cache.rememberedAccess(of: alice, in: url) }
        usleep(15_000)
      }
      cache.write({ _ in order.withLock { $0.append("derived") } }, finish: { _ in })
      usleep(3_000)  // the writer takes the writes that it may take meanwhile
      try cache.accept { _ in order.withLock { $0.append("promised") } }
      try cache.write { _ in }  // waits until the earlier writes are written, too
      if order.withLock({ $0 }) == ["promised", "derived"] { count += 1 }
    }
    return count
  }

  @Test("while clients read, derived work rests after a batch, and what is promised does not wait for it")
  func rests() throws {
    let (beside, alone) = (try Self.promisesFirst(isRead: true), try Self.promisesFirst(isRead: false))
    #expect(beside > 10, "with a client that reads: \(beside) of 20")
    #expect(alone < 10, "without one: \(alone) of 20")
  }
}
