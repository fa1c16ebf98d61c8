import Glibc

/// A folder that is removed with its contents when this value is freed.
final class ScratchFolder: Sendable {
  let path: String

  /// Makes a folder: on the disk, or in memory.
  init(_ name: String, onDisk: Bool = true) throws {
    var template = Array("\(onDisk ? "/tmp" : "/dev/shm")/perch-bench-\(name)-XXXXXX".utf8CString)
    guard let made = mkdtemp(&template) else { throw BenchFailure(description: "no folder for \(name)") }
    path = String(cString: made)
  }

  deinit { ScratchFolder.remove(path) }

  /// Writes a file with that text into it, and returns the file's path.
  func file(_ name: String, _ text: String) throws -> String {
    let filePath = path + "/" + name
    let file = open(filePath, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    defer { close(file) }
    guard write(file, text, text.utf8.count) == text.utf8.count else {
      throw BenchFailure(description: "cannot write \(filePath)")
    }
    return filePath
  }

  private static func remove(_ path: String) {
    for name in ProcFile.names(path) {
      let filePath = path + "/" + name
      if unlink(filePath) != 0 { remove(filePath) }
    }
    rmdir(path)
  }
}
