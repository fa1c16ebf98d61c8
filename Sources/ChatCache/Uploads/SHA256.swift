import COpenSSL

/// SHA-256 of bytes that come in pieces. OpenSSL uses the best instructions that the processor has for it.
///
/// One thread at a time may use it.
package final class SHA256 {
  private let state: OpaquePointer
  /// OpenSSL's SHA-256, looked up once.
  private struct Algorithm: @unchecked Sendable {  // because OpenSSL never changes it
    let pointer = EVP_MD_fetch(nil, "SHA256", nil)
  }
  private static let algorithm = Algorithm()

  /// A hash of no bytes.
  package init() {
    guard let state = EVP_MD_CTX_new() else { preconditionFailure("there is no memory left for a hash") }
    precondition(EVP_DigestInit_ex(state, SHA256.algorithm.pointer, nil) == 1, "OpenSSL offers no SHA-256")
    self.state = state
  }

  deinit { EVP_MD_CTX_free(state) }

  /// Takes the next bytes.
  package func update(_ bytes: UnsafeRawBufferPointer) {
    precondition(EVP_DigestUpdate(state, bytes.baseAddress, bytes.count) == 1)
  }

  /// Returns the hash of all bytes. Call it once.
  package func finish() -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 32)
    precondition(EVP_DigestFinal_ex(state, &digest, nil) == 1)
    return digest
  }
}
