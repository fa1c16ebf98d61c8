import Glibc

/// The texts of a certificate chain and its key, for as long as libmicrohttpd reads them.
final class CertificateTexts {
  let certificate: UnsafeMutablePointer<CChar>
  let key: UnsafeMutablePointer<CChar>

  /// Reads both files.
  init(_ files: CertificateFiles) throws(ServerError) {
    certificate = try CertificateTexts.read(files.certificate)
    do throws(ServerError) { key = try CertificateTexts.read(files.key) } catch {
      free(certificate)
      throw error
    }
  }

  deinit {
    free(certificate)
    free(key)
  }

  private static func read(_ path: String) throws(ServerError) -> UnsafeMutablePointer<CChar> {
    guard let file = fopen(path, "re") else {
      throw ServerError(detail: "cannot read \(path): \(String(cString: strerror(errno)))")
    }
    defer { fclose(file) }
    let room = 1_048_576
    let text = UnsafeMutableRawPointer(malloc(room)!).assumingMemoryBound(to: CChar.self)
    text[fread(text, 1, room - 1, file)] = 0
    return text
  }
}
