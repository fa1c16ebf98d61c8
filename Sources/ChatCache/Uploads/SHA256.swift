import CNettle

/// SHA-256 of bytes that come in pieces. Nettle uses the processor's instructions for it.
package struct SHA256 {
  private var state = sha256_ctx()

  /// A hash of no bytes.
  package init() { nettle_sha256_init(&state) }

  /// Takes the next bytes.
  package mutating func update(_ bytes: UnsafeRawBufferPointer) {
    nettle_sha256_update(&state, bytes.count, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self))
  }

  /// Returns the hash of all bytes.
  package mutating func finish() -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_SIZE))
    nettle_sha256_digest(&state, digest.count, &digest)
    return digest
  }
}
