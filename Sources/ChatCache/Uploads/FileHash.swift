import CSodium

/// The hash of a file whose bytes come in pieces: BLAKE2b of 32 bytes.
///
/// One thread at a time may use it.
package final class FileHash {
  private static let byteCount = 32
  /// libsodium chooses the best instructions of the processor when it is initialized.
  private static let isReady = sodium_init() >= 0

  private let state = UnsafeMutableRawPointer.allocate(
    byteCount: crypto_generichash_statebytes(), alignment: 64)

  /// A hash of no bytes.
  package init() {
    precondition(FileHash.isReady, "libsodium cannot be initialized")
    crypto_generichash_init(OpaquePointer(state), nil, 0, FileHash.byteCount)
  }

  deinit { state.deallocate() }

  /// Takes the next bytes.
  package func update(_ bytes: UnsafeRawBufferPointer) {
    guard let start = bytes.baseAddress else { return }
    crypto_generichash_update(OpaquePointer(state), start, UInt64(bytes.count))
  }

  /// Returns the hash of all bytes. Call it once.
  package func finish() -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: FileHash.byteCount)
    crypto_generichash_final(OpaquePointer(state), &digest, digest.count)
    return digest
  }
}
