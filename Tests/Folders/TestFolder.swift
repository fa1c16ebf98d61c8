import Glibc

/// Folders for tests, below one that is this process's and goes when it ends.
public enum TestFolder {
  /// A new empty folder with that word in its name.
  public static func make(_ word: String) -> String { made("\(root)/\(word)-XXXXXX") }

  private static let root: String = {
    let root = made("/tmp/perch-tests-XXXXXX")
    atexit {
      // A child that was forked off ends as well.
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
