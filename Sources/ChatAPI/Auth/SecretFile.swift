import Glibc
import Platform

/// The file that holds the signing secrets, readable by its owner alone.
package struct SecretFile: Sendable {
  /// Why the secrets could not be read or made.
  package struct Failure: Error, CustomStringConvertible {
    /// The file's path, and what failed.
    package let description: String
  }

  /// The file's path.
  package let path: String

  /// The file at `path`.
  package init(path: String) { self.path = path }

  /// The file that `perch serve` makes in its data directory.
  package init(inDataDirectory directory: String) { path = directory + "/auth-secret" }

  /// Reads the secrets.
  package func read() throws -> SigningSecrets {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw failure("cannot be read") }
    defer { close(file) }
    // Room for two secrets of 256 characters and some comment lines. A file that fills it is refused.
    var bytes = [UInt8](repeating: 0, count: 8192)
    var count = 0
    while count < bytes.count {
      let more = bytes.withUnsafeMutableBytes { Glibc.read(file, $0.baseAddress! + count, $0.count - count) }
      if more < 0 { throw failure("cannot be read") }
      if more == 0 { break }
      count += more
    }
    guard count < bytes.count else { throw Failure(description: "\(path) is too long to hold secrets") }
    do {
      return try SigningSecrets(text: String(decoding: bytes[..<count], as: UTF8.self))
    } catch let error as SigningSecrets.Malformed {
      throw Failure(description: "\(path): \(error.description)")
    }
  }

  /// Reads the secrets. If there is no file, makes it with a new secret first.
  package func readOrMake() throws -> SigningSecrets {
    if access(path, F_OK) != 0, errno == ENOENT { try make() }
    return try read()
  }

  /// Writes a draft and renames it, so that a crash leaves the whole file or none.
  private func make() throws {
    let draft = path + ".new"
    unlink(draft)
    let file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw failure("cannot be made") }
    defer { close(file) }
    let text = Array(SigningSecrets.makeText().utf8)
    guard write(file, text, text.count) == text.count, fsync(file) == 0, rename(draft, path) == 0 else {
      throw failure("cannot be made")
    }
  }

  private func failure(_ fault: String) -> Failure {
    Failure(description: "\(path) \(fault): \(String(cString: strerror(errno)))")
  }
}
