/// Whether webhooks arrive, so that polling may be slow (B34), as a value.
///
/// A webhook that comes is trusted for a while. A poll that finds news of which no webhook told shows that
/// webhooks get lost. Then one webhook is not enough any more: each further miss doubles the number that must
/// come before polling slows down again. So polling does not change its pace all the time where a server
/// loses some webhooks.
struct WebhookTrust: Sendable, Equatable {
  /// The largest number of webhooks that must come after misses.
  static let most = 64

  private var heardAt: Int64?
  private var heard = 0
  private var needed = 1

  /// A webhook came.
  mutating func hear(now: Int64) {
    heardAt = now
    heard = min(heard + 1, WebhookTrust.most)
  }

  /// A poll found news that a webhook should have told.
  mutating func miss() {
    heard = 0
    needed = min(max(needed * 2, 2), WebhookTrust.most)
  }

  /// Whether webhooks are trusted at `now`. The last one counts for `memory` ms.
  func isGood(now: Int64, memory: Int64) -> Bool {
    heard >= needed && (heardAt.map { now - $0 < memory } ?? false)
  }
}
