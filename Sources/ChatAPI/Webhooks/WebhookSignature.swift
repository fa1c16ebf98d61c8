import Synchronization

/// The signature of webhooks: lower-case hex of the HMAC-SHA256 of the raw body (B61).
package final class WebhookSignature: Sendable {
  private let key: [UInt8]
  /// Whether the key is a guess: `--webhook-secret` was not given, and the upstream may sign with another
  /// key.
  private let isGuessed: Bool
  private let hasMissed = Atomic<Bool>(false)

  /// Nil: `secret` is empty, so no webhook is good. `isGuessed`: the operator did not give the secret.
  package init?(secret: String, isGuessed: Bool = false) {
    guard !secret.isEmpty else { return nil }
    key = Array(secret.utf8)
    self.isGuessed = isGuessed
  }

  /// Whether the secret was guessed and the last signed webhook was signed with another.
  var isGuessedWrong: Bool { isGuessed && hasMissed.load(ordering: .relaxed) }

  /// The hex digits of `body`'s code.
  package func sign(_ body: UnsafeRawBufferPointer) -> [UInt8] {
    let code = MessageCode.of(body, under: key)
    let digits = Array("0123456789abcdef".utf8)
    return code.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
  }

  /// Whether `given` is the signature of `body`; takes the same time wherever it differs.
  package func isGood(_ given: UnsafeRawBufferPointer, of body: UnsafeRawBufferPointer) -> Bool {
    let isSame = MessageCode.isSame(sign(body), given)
    hasMissed.store(!isSame, ordering: .relaxed)
    return isSame
  }
}
