import Testing

@testable import MicroHTTP

@Suite struct YieldRuleTests {
  private let millisecond: UInt64 = 1_000_000

  @Test("a worker that got the processor back late, while few were answered, does not yield for 50 ms")
  func others() {
    var rule = YieldRule()
    #expect(rule.mayYield(now: 0))
    rule.yielded(from: 0, to: 3 * millisecond, answered: 59)
    #expect(!rule.mayYield(now: 52 * millisecond))
    #expect(rule.mayYield(now: 53 * millisecond))
  }

  @Test("after a client computed, as its requests show, and after a short yield, a worker yields again")
  func clients() {
    var rule = YieldRule()
    rule.yielded(from: 0, to: 3 * millisecond, answered: 60)
    #expect(rule.mayYield(now: 3 * millisecond))
    rule.yielded(from: 4 * millisecond, to: 5 * millisecond, answered: 0)
    #expect(rule.mayYield(now: 5 * millisecond))
  }
}
