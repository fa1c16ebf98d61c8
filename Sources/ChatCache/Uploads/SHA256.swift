import COpenSSL

/// SHA-256 of bytes that come in pieces. OpenSSL uses the best instructions that the processor has for it.
///
/// One thread at a time may use it.
package final class SHA256 {
  private let state: OpaquePointer

  /// A hash of no bytes.
  package init() {
    let state = EVP_MD_CTX_new()
    precondition(EVP_DigestInit_ex(state, EVP_sha256(), nil) == 1, "OpenSSL offers no SHA-256")
    self.state = state!
  }

  deinit { EVP_MD_CTX_free(state) }

  /// Takes the next bytes.
  package func update(_ bytes: UnsafeRawBufferPointer) {
    // It cannot fail: SHA-256 counts up to 2^61 bytes.
    EVP_DigestUpdate(state, bytes.baseAddress, bytes.count)
  }

  /// Returns the hash of all bytes. Call it once.
  package func finish() -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 32)
    EVP_DigestFinal_ex(state, &digest, nil)
    return digest
  }
}
