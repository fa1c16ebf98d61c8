/// Whether webhooks prove alive, so that polling may be slow (B34), as a value.
///
/// One that comes proves it for a while. News that a poll found although nobody had rung for it proves the
/// contrary: webhooks get lost. Then one is not enough any more; as many as were lately needed, and twice
/// that after each further miss, must come before polling slows down again. So a server that loses some of
/// them is not trusted and doubted in turns.
struct WebhookTrust: Sendable, Equatable {
  /// The most webhooks that are asked for after misses.
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

  /// Whether they are trusted at `now`, where one proves them for `memory` ms.
  func isGood(now: Int64, memory: Int64) -> Bool {
    heard >= needed && (heardAt.map { now - $0 < memory } ?? false)
  }
}
