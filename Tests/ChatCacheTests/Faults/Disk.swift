import FaultyDisk
import Glibc
import TestFolders

/// A fault of the disk under one folder.
struct Disk {
  /// The operations that can fail.
  struct Operations: OptionSet {
    let rawValue: Int32
    static let read = Operations(rawValue: Int32(FAULTY_READ.rawValue))
    static let write = Operations(rawValue: Int32(FAULTY_WRITE.rawValue))
    static let truncate = Operations(rawValue: Int32(FAULTY_TRUNCATE.rawValue))
    static let sync = Operations(rawValue: Int32(FAULTY_SYNC.rawValue))
    static let lock = Operations(rawValue: Int32(FAULTY_LOCK.rawValue))
    static let map = Operations(rawValue: Int32(FAULTY_MAP.rawValue))
    /// The operations that change the files.
    static let changing: Operations = [.write, .truncate, .sync]
  }

  private static let isInstalled: Bool = faulty_disk_install() == 0

  /// A new folder on a disk that can fail. Call it before a file in the folder is opened.
  static func folder() -> String {
    precondition(isInstalled, "the faulty disk could not be put under SQLite")
    return TestFolder.make("disk") + "/data"
  }

  /// A new folder with a copy of the closed cache in `other`.
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

  /// Makes operation `number` from now on fail with SQLite's `code`; with `stays` all later ones too.
  init(failing operations: Operations, in folder: String, at number: Int, code: Int32, stays: Bool = false) {
    fault = faulty_disk_arm(folder, operations.rawValue, number, code, stays ? 1 : 0)
    precondition(fault >= 0, "too many faults at a time")
  }

  /// Ends the fault. Returns whether it has struck.
  @discardableResult
  func heal() -> Bool { faulty_disk_heal(fault) != 0 }
}
