import Testing

@testable import ChatSync

struct WebhookTrustTests {
  @Test("B34: one webhook proves webhooks for a while, and after that nothing does")
  func memory() {
    var trust = WebhookTrust()
    #expect(!trust.isGood(now: 0, memory: 100))
    trust.hear(now: 0)
    #expect(trust.isGood(now: 99, memory: 100))
    #expect(!trust.isGood(now: 100, memory: 100))
  }

  @Test("B34: news that no webhook named ends the trust; each miss asks for twice as many, up to a bound")
  func misses() {
    var trust = WebhookTrust()
    trust.hear(now: 0)
    for expected in [2, 4, 8, 16, 32, 64, 64] {
      trust.miss()
      for _ in 1..<expected { trust.hear(now: 1) }
      #expect(!trust.isGood(now: 1, memory: 100))
      trust.hear(now: 1)
      #expect(trust.isGood(now: 1, memory: 100))
    }
  }
}
