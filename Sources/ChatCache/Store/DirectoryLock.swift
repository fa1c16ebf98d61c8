import Glibc
import Platform

/// The lock on a file in a data directory, by which one process owns the directory as long as it lives (B65).
///
/// The kernel releases the lock when the process ends, however it ends, so a stale file locks nobody out.
final class DirectoryLock: Sendable {
  private let held: Guarded<Int32?>

  /// Makes the directory (0700) if it is missing, and locks it. Throws the pid of another owner.
  init(directory: String) throws {
    if mkdir(directory, 0o700) != 0, errno != EEXIST {
      throw CacheError.file(path: directory, reason: String(cString: strerror(errno)))
    }
    let path = directory + "/perch.lock"
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw CacheError.file(path: path, reason: String(cString: strerror(errno))) }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      let owner = DirectoryLock.owner(descriptor)
      close(descriptor)
      throw CacheError.lockedBy(pid: owner, path: directory)
    }
    let pid = "\(getpid())\n"
    ftruncate(descriptor, 0)
    held = Guarded(descriptor)
    _ = pid.utf8.withContiguousStorageIfAvailable { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
  }

  deinit { release() }

  /// Unlocks the directory. A second call does nothing.
  func release() {
    held.withLock { descriptor in
      if let open = descriptor {
        // Closing alone does not unlock: a forked child has the descriptor until it runs its program.
        flock(open, LOCK_UN)
        Glibc.close(open)
      }
      descriptor = nil
    }
  }

  private static func owner(_ descriptor: Int32) -> Int32 {
    var bytes = [UInt8](repeating: 0, count: 16)
    let count = pread(descriptor, &bytes, bytes.count, 0)
    let digits = bytes.prefix(max(0, count)).prefix { (0x30...0x39).contains($0) }
    return Int32(String(decoding: digits, as: UTF8.self)) ?? 0
  }
}
