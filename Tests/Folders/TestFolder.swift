import Glibc

/// Folders for tests, below a folder of this process that is removed when the process ends.
public enum TestFolder {
  /// A new empty folder with `word` in its name.
  public static func make(_ word: String) -> String { made("\(root)/\(word)-XXXXXX") }

  private static let root: String = {
    let root = made("/tmp/perch-tests-XXXXXX")
    atexit {
      // A forked child also runs this when it ends.
      if getpid() == TestFolder.owner { TestFolder.remove(TestFolder.root) }
    }
    return root
  }()

  private static let owner: pid_t = getpid()

  private static func made(_ template: String) -> String {
    var path = Array(template.utf8CString)
    guard mkdtemp(&path) != nil else {
      fatalError("no folder \(template): \(String(cString: strerror(errno)))")
    }
    return path.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
  }

  private static func remove(_ path: String) {
    if unlink(path) == 0 { return }
    guard let folder = opendir(path) else { return }
    while let entry = readdir(folder) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name != ".", name != ".." { remove("\(path)/\(name)") }
    }
    closedir(folder)
    rmdir(path)
  }
}
