import Glibc
import Platform

/// Why the stand-in could not open its data.
package struct OriginError: Error, CustomStringConvertible {
  /// What is wrong, and with which directory.
  package let description: String
}

/// The directory of the database, for one process at a time, because stamps are given out in memory.
final class OriginDirectory: Sendable {
  let path: String
  private let file: Int32

  /// Makes the directory if it is missing, locks it, and removes files of uploads that an earlier process did
  /// not finish.
  init(_ path: String) throws {
    self.path = path
    do throws(PrivateDirectory.Refusal) { try PrivateDirectory.prepare(path) } catch {
      throw OriginError(description: error.description)
    }
    file = open(path + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard file >= 0 else {
      throw OriginError(description: "cannot write in \(path): \(String(cString: strerror(errno)))")
    }
    guard flock(file, LOCK_EX | LOCK_NB) == 0 else {
      close(file)
      throw OriginError(description: "\(path) is in use by another process")
    }
    // SQLite gives a database's rights to the two files that it makes beside it.
    do throws(PrivateDirectory.Refusal) { try PrivateDirectory.makeFile(path + "/origin.db") } catch {
      throw OriginError(description: error.description)
    }
    guard let directory = opendir(path) else { return }
    defer { closedir(directory) }
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(cString: $0.baseAddress!.assumingMemoryBound(to: CChar.self))
      }
      if name.hasPrefix("upload-") { unlink(path + "/" + name) }
    }
  }

  deinit { close(file) }
}
