import Platform
import Testing

@testable import ChatSync

@Suite struct ReplyTests {
  @Test("a reply is given once, and looking at it leaves nothing behind")
  func once() {
    let given = Guarded<[Int]>([])
    let reply = Reply<Int> { value in given.withLock { $0.append(value) } }
    // If each look wrapped the callback, the call would go through a million wrappers, and exhaust the stack.
    for _ in 0..<1_000_000 { #expect(!reply.isGiven) }
    reply.give(1)
    reply.give(2)
    #expect(reply.isGiven && given.withLock { $0 } == [1])
  }
}
