import Glibc

/// A data directory that only its owner can use: 0700, and every file in it 0600 (B65).
///
/// A missing directory is created. The rights of an existing one are tightened, also on all files below it. A
/// directory is refused if that fails, or if others may be using it: one with a sticky bit such as `/tmp`, or
/// one that holds files but none of Perch's.
package enum PrivateDirectory {
  /// Why a directory cannot be used.
  package struct Refusal: Error, CustomStringConvertible {
    /// Which directory has which fault, and what to do.
    package let description: String
  }

  /// Files that show that a directory is a data directory of Perch's.
  private static let marks: Set<String> = ["perch.lock", "perch.db", "auth-secret", "origin", "origin.db"]
  /// Names that a file system itself puts into its root.
  private static let ignored: Set<String> = ["lost+found"]
  private static let forOthers: mode_t = 0o077
  private static let writtenByOthers: mode_t = 0o022

  /// Makes or tightens the directory at `path`, and checks that it can be written.
  package static func prepare(_ path: String) throws(Refusal) {
    if mkdir(path, 0o700) != 0, errno != EEXIST { throw failure("cannot make the data directory \(path)") }
    let directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else { throw failure("cannot read the data directory \(path)") }
    defer { close(directory) }
    var status = stat()
    guard fstat(directory, &status) == 0 else { throw failure("cannot read the data directory \(path)") }
    if status.st_mode & forOthers != 0 { try tighten(path, directory, status) }
    try tightenFiles(path, directory, wasShared: status.st_mode & writtenByOthers != 0)
    guard access(path, R_OK | W_OK | X_OK) == 0 else {
      throw failure("cannot write in the data directory \(path)")
    }
  }

  /// Creates a missing file with rights for its owner alone, because a library would create it readable for
  /// others.
  package static func makeFile(_ path: String) throws(Refusal) {
    let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else { throw failure("cannot make \(path)") }
    close(file)
  }

  private static func tighten(_ path: String, _ directory: Int32, _ status: stat) throws(Refusal) {
    let mode = String(status.st_mode & 0o7777, radix: 8)
    guard status.st_mode & mode_t(S_ISVTX) == 0 else {
      throw Refusal(description: "\(path) is shared by all users (mode \(mode)): name a directory inside it")
    }
    let names = names(in: path).subtracting(ignored)
    guard names.isEmpty || !names.isDisjoint(with: marks) else {
      throw Refusal(
        description: "\(path) can be used by others (mode \(mode)) and holds files that are not Perch's: "
          + "name a directory inside it, or chmod it to 700")
    }
    guard fchmod(directory, status.st_mode & 0o700) == 0 else {
      throw Refusal(
        description: "\(path) can be used by others (mode \(mode)) and belongs to user \(status.st_uid): "
          + "have its owner chmod it to 700, or name a directory inside it")
    }
    Log.line(.warning, "data_directory_tightened", ["path": .text(path), "mode": .text(mode)])
  }

  /// Removes the rights of others on the files and directories below; links are not followed.
  ///
  /// A file that belongs to another user keeps its rights, because others cannot reach it. If others could
  /// write in the directory, the directory is refused: they may have put the file there.
  private static func tightenFiles(_ path: String, _ directory: Int32, wasShared: Bool) throws(Refusal) {
    for name in names(in: path).subtracting(ignored) {
      var status = stat()
      guard fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { continue }
      let kind = status.st_mode & mode_t(S_IFMT)
      guard kind == S_IFREG || kind == S_IFDIR else { continue }
      let isTight = status.st_mode & forOthers == 0
      // By name, because opening and closing a database here would release SQLite's locks on it in this
      // process.
      guard isTight || fchmodat(directory, name, status.st_mode & 0o700, 0) == 0 else {
        if wasShared {
          throw Refusal(
            description: "\(path)/\(name) belongs to user \(status.st_uid), who may have put it there: "
              + "look at it, then remove it or make it yours")
        }
        continue
      }
      guard kind == S_IFDIR else { continue }
      let below = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
      guard below >= 0 else { continue }
      defer { close(below) }
      try tightenFiles(path + "/" + name, below, wasShared: wasShared)
    }
  }

  private static func names(in path: String) -> Set<String> {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var names: Set<String> = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(cString: $0.baseAddress!.assumingMemoryBound(to: CChar.self))
      }
      if name != ".", name != ".." { names.insert(name) }
    }
    return names
  }

  private static func failure(_ fault: String) -> Refusal {
    Refusal(description: "\(fault): \(String(cString: strerror(errno)))")
  }
}
