import CSodium

/// HMAC-SHA256: the code of a message under a key.
enum MessageCode {
  /// Bytes of a code.
  static let byteCount = Int(crypto_auth_hmacsha256_BYTES)

  static func of(_ message: UnsafeRawBufferPointer, under key: [UInt8]) -> [UInt8] {
    var state = crypto_auth_hmacsha256_state()
    var code = [UInt8](repeating: 0, count: byteCount)
    crypto_auth_hmacsha256_init(&state, key, key.count)
    let start = message.baseAddress?.assumingMemoryBound(to: UInt8.self)
    crypto_auth_hmacsha256_update(&state, start, UInt64(message.count))
    crypto_auth_hmacsha256_final(&state, &code)
    return code
  }

  /// Whether two codes, or their hex digits, are the same. Takes the same time wherever they differ.
  static func isSame(_ expected: [UInt8], _ given: UnsafeRawBufferPointer) -> Bool {
    guard given.count == expected.count, let start = given.baseAddress else { return false }
    return sodium_memcmp(expected, start, expected.count) == 0
  }
}
