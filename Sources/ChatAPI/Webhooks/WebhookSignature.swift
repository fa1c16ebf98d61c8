import CSodium

/// The signature of webhooks: lower-case hex of the HMAC-SHA256 of the raw body (B61).
package struct WebhookSignature: Sendable {
  private let key: [UInt8]

  /// Nil where there is no secret: then no webhook is good.
  package init?(secret: String) {
    guard !secret.isEmpty else { return nil }
    key = Array(secret.utf8)
  }

  /// The hex digits of `body`'s code.
  package func sign(_ body: UnsafeRawBufferPointer) -> [UInt8] {
    var state = crypto_auth_hmacsha256_state()
    var code = [UInt8](repeating: 0, count: Int(crypto_auth_hmacsha256_BYTES))
    crypto_auth_hmacsha256_init(&state, key, key.count)
    let start = body.baseAddress?.assumingMemoryBound(to: UInt8.self)
    crypto_auth_hmacsha256_update(&state, start, UInt64(body.count))
    crypto_auth_hmacsha256_final(&state, &code)
    let digits = Array("0123456789abcdef".utf8)
    return code.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
  }

  /// Whether `given` is the signature of `body`; takes the same time wherever it differs.
  package func isGood(_ given: UnsafeRawBufferPointer, of body: UnsafeRawBufferPointer) -> Bool {
    let expected = sign(body)
    guard given.count == expected.count, let start = given.baseAddress else { return false }
    return sodium_memcmp(expected, start, expected.count) == 0
  }
}
