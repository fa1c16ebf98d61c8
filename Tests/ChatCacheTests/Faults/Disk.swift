import FaultyDisk
import Glibc
import TestFolders

/// The disk under one folder, told to fail.
struct Disk {
  /// What can fail.
  struct Operations: OptionSet {
    let rawValue: Int32
    static let read = Operations(rawValue: Int32(FAULTY_READ.rawValue))
    static let write = Operations(rawValue: Int32(FAULTY_WRITE.rawValue))
    static let truncate = Operations(rawValue: Int32(FAULTY_TRUNCATE.rawValue))
    static let sync = Operations(rawValue: Int32(FAULTY_SYNC.rawValue))
    static let lock = Operations(rawValue: Int32(FAULTY_LOCK.rawValue))
    static let map = Operations(rawValue: Int32(FAULTY_MAP.rawValue))
    /// Everything that changes what is stored.
    static let changing: Operations = [.write, .truncate, .sync]
  }

  private static let isInstalled: Bool = faulty_disk_install() == 0

  /// A folder of its own, made under a disk that can fail. Before anything in it is opened.
  static func folder() -> String {
    precondition(isInstalled, "the faulty disk could not be put under SQLite")
    return TestFolder.make("disk") + "/data"
  }

  /// A folder of its own with a copy of what the closed cache in `other` wrote.
  static func folder(copying other: String) -> String {
    let folder = folder()
    mkdir(folder, 0o700)
    let (source, target) = (
      open(other + "/perch.db", O_RDONLY), open(folder + "/perch.db", O_CREAT | O_WRONLY, 0o600)
    )
    defer {
      close(source)
      close(target)
    }
    precondition(sendfile(target, source, nil, 1 << 30) > 0, "a copy of \(other) could not be made")
    return folder
  }

  private let fault: Int32

  /// From now on the operation of that number fails with SQLite's `code`; all later ones too where it stays.
  init(failing operations: Operations, in folder: String, at number: Int, code: Int32, stays: Bool = false) {
    fault = faulty_disk_arm(folder, operations.rawValue, number, code, stays ? 1 : 0)
    precondition(fault >= 0, "too many faults at a time")
  }

  /// The disk is well again. Answers whether the fault has struck.
  @discardableResult
  func heal() -> Bool { faulty_disk_heal(fault) != 0 }
}
