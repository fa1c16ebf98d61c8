import Glibc
import Platform

/// The folder of unsent messages' files: `spool` in the data directory.
///
///     let file = try spool.begin(announced: 1000)   // reserves room, or throws
///     try file.write(bytes)
///     try file.end()
///     spool.keep(file) { error in … }               // file and folder are on the disk
///     spool.settled(file.name)                      // its row is, too
///
/// A file that is released before it is kept is removed. The janitor removes files that no row names.
package final class Spool: Sendable {
  private let path: String
  private let folder: Int32
  private let room: Guarded<SpoolRoom>
  private let queue = Watched(Queue())
  private let threads: [ThreadSlot]

  private struct Queue {
    var waiting: [@Sendable () -> Void] = []
    var isStopping = false
  }

  /// The number of threads that wait for the disk.
  private static let syncingThreads = 2
  /// The most files that may wait for the disk; more are refused.
  private static let mostWaiting = 10_000

  /// Makes the folder at `path` if it is missing.
  init(_ path: String, most: Int) throws(CacheError) {
    self.path = path
    guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
      throw .file(path: path, reason: String(cString: strerror(errno)))
    }
    folder = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
    guard folder >= 0 else { throw .file(path: path, reason: String(cString: strerror(errno))) }
    fchmod(folder, 0o700)
    room = Guarded(SpoolRoom(most: most))
    threads = (0..<Spool.syncingThreads).map { _ in ThreadSlot() }
  }

  deinit { Glibc.close(folder) }

  func start() {
    for thread in threads { thread.start("perch-spool") { [self] in run() } }
  }

  /// Ends the threads. Files that wait for the disk fail.
  func stop() {
    queue.update { $0.isStopping = true }
    for thread in threads { thread.join() }
  }

  private func run() {
    while true {
      let next = queue.wait { queue -> (work: (@Sendable () -> Void)?, isLast: Bool)? in
        if !queue.waiting.isEmpty { return (queue.waiting.removeFirst(), false) }
        return queue.isStopping ? (nil, true) : nil
      }
      guard let work = next?.work else { return }
      work()
    }
  }

  // MARK: - Files that come in

  /// Begins a file. `announced`: its size if known, else 0. Throws if there is no room for that.
  package func begin(announced: Int) throws(SpoolError) -> IncomingFile {
    try promise(announced)
    let name = SpoolName.made()
    // Open before it can be listed, or the janitor would take it for an orphan.
    room.withLock { $0.opened(name) }
    let file = openat(
      folder, name.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else {
      let code = errno
      room.withLock {
        $0.giveBack(announced)
        $0.removed(name)
      }
      throw .disk(code)
    }
    return IncomingFile(name, in: self, file: file, promised: announced)
  }

  /// Begins a file of a repeated request. It is only hashed for the comparison, so it takes no room.
  package func beginRepeated() -> IncomingFile { IncomingFile(onlyHashed: SpoolName.made(), in: self) }

  /// Reserves room for `count` bytes.
  func promise(_ count: Int) throws(SpoolError) {
    let free = freeBytes
    guard room.withLock({ $0.promise(count, free: free) }) else { throw .full }
  }

  /// Whether there is room for `count` more bytes now.
  package func hasRoom(for count: Int) -> Bool {
    let free = freeBytes
    return room.withLock { $0.hasRoom(for: count, free: free) }
  }

  /// The free bytes of the disk.
  private var freeBytes: Int {
    var info = statvfs()
    guard fstatvfs(folder, &info) == 0 else { return .max }
    let free = info.f_bavail.multipliedReportingOverflow(by: info.f_frsize)
    return free.overflow ? .max : Int(clamping: free.partialValue)
  }

  /// Syncs an ended file to the disk, then calls `finish` on a thread of the spool. If that fails, the file
  /// is removed.
  package func keep(_ file: IncomingFile, then finish: @escaping @Sendable (SpoolError?) -> Void) {
    let isTaken = queue.update { queue in
      guard !queue.isStopping, queue.waiting.count < Spool.mostWaiting else { return false }
      queue.waiting.append {
        do throws(SpoolError) {
          try file.sync()
          finish(nil)
        } catch {
          file.abandon()
          finish(error)
        }
      }
      return true
    }
    guard !isTaken else { return }
    file.abandon()
    finish(.disk(EBUSY))
  }

  /// Hashes the first `size` bytes of a file that comes in, and begins to store them, so that little is left
  /// to do when it is complete. Does nothing while other work waits for a thread of the spool: a complete
  /// file waits for at most one such look.
  func storeEarly(_ file: SpoolDescriptor, to size: Int) {
    guard file.beginEarly() else { return }
    let isTaken = queue.update { queue in
      guard !queue.isStopping, queue.waiting.isEmpty else { return false }
      queue.waiting.append {
        // `try?`: what could not be read is read again when the file is complete.
        try? file.store(to: size)
        file.endEarly()
      }
      return true
    }
    if !isTaken { file.endEarly() }
  }

  func syncFolder() throws(SpoolError) {
    guard fsync(folder) == 0 else { throw .disk(errno) }
  }

  func filled(_ file: IncomingFile, promised: Int) {
    room.withLock { $0.filled(file.name, size: file.size, promised: promised) }
  }

  func abandoned(_ file: IncomingFile, promised: Int) {
    unlinkat(folder, file.name.text, 0)
    room.withLock {
      $0.giveBack(promised)
      $0.removed(file.name)
    }
  }

  /// Call it when the commit of the file's row is durable, or may be.
  package func settled(_ name: SpoolName) { room.withLock { $0.settled(name) } }

  /// Removes a file that no row names or will name.
  package func remove(_ name: SpoolName) {
    // It is no error if the file is gone already.
    unlinkat(folder, name.text, 0)
    room.withLock { $0.removed(name) }
  }

  // MARK: - Files that are there

  /// The path at which a file can be read; nil: the file is not there.
  package func path(of name: SpoolName) -> String? {
    var info = stat()
    guard fstatat(folder, name.text, &info, AT_SYMLINK_NOFOLLOW) == 0, info.st_mode & S_IFMT == S_IFREG
    else { return nil }
    return path + "/" + name.text
  }

  /// The bytes of all files, including room reserved for arriving ones, and the number of files.
  package var contents: (bytes: Int, files: Int) { room.withLock { ($0.bytes, $0.count) } }

  /// Files that no row names yet.
  var open: Set<SpoolName> { room.withLock { $0.open } }

  /// The files of the folder with their sizes. Files with other names are left alone.
  func list() throws(CacheError) -> [(name: SpoolName, size: Int)] {
    guard let directory = opendir(path) else {
      throw .file(path: path, reason: String(cString: strerror(errno)))
    }
    defer { closedir(directory) }
    var found: [(SpoolName, Int)] = []
    while let entry = readdir(directory) {
      let text = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(cString: $0.baseAddress!.assumingMemoryBound(to: CChar.self))
      }
      var info = stat()
      guard let name = SpoolName(text), fstatat(folder, text, &info, AT_SYMLINK_NOFOLLOW) == 0 else {
        continue
      }
      found.append((name, Int(info.st_size)))
    }
    return found
  }

  /// Adds the files that a listing of the folder found.
  func take(_ found: [(name: SpoolName, size: Int)]) {
    room.withLock { room in
      for file in found { room.found(file.name, size: file.size) }
    }
  }
}
