import Glibc
import Platform

/// A file of the spool while its bytes come in. If it is released before it is kept, its bytes are removed.
///
/// One thread at a time has it: the worker thread of its request, then a thread of the spool. Only its
/// descriptor is shared: the spool hashes the first bytes of a large file, and begins to store them, while
/// more bytes come.
package final class IncomingFile: @unchecked Sendable {  // because one thread at a time has it
  /// Its name in the spool.
  package let name: SpoolName
  /// The number of bytes that came.
  package private(set) var size = 0
  private let spool: Spool
  /// Nil if its bytes are not stored, and after it was kept or removed.
  private var file: SpoolDescriptor?
  /// Whether its bytes are compared and not stored.
  package let isOnlyHashed: Bool
  /// Bytes since the spool was last asked to look at the file.
  private var unseenBytes = 0
  /// The hash of a file whose bytes are not stored.
  private let hash = FileHash()
  private var digest: [UInt8] = []
  private var waiting = ByteBuffer(capacity: 0)
  /// The bytes of room that are reserved for it.
  private var promised: Int
  private var isOver = false

  /// The least bytes of one write, except the last one.
  private static let pieceBytes = 64 << 10
  /// Bytes after which the spool is asked to hash and store what came.
  private static let earlyBytes = 2 << 20
  /// The least room that is reserved at once for a file that is larger than announced.
  private static let roomBytes = 256 << 10

  init(_ name: SpoolName, in spool: Spool, file: Int32, promised: Int) {
    self.name = name
    self.spool = spool
    self.file = SpoolDescriptor(file)
    isOnlyHashed = false
    self.promised = promised
  }

  /// A file of which only the size and the hash are computed. It takes no room.
  init(onlyHashed name: SpoolName, in spool: Spool) {
    self.name = name
    self.spool = spool
    isOnlyHashed = true
    promised = .max
  }

  deinit { abandon() }

  /// Takes the next bytes.
  package func write(_ bytes: UnsafeRawBufferPointer) throws(SpoolError) {
    size += bytes.count
    if size > promised {
      let more = max(size - promised, IncomingFile.roomBytes)
      try spool.promise(more)
      promised += more
    }
    waiting.append(bytes)
    if waiting.count >= IncomingFile.pieceBytes { try flush() }
  }

  /// Call it after the last byte: writes what is still in memory.
  package func end() throws(SpoolError) {
    try flush()
    waiting = ByteBuffer(capacity: 0)
  }

  /// The complete file. Call it after the spool has kept the file.
  package var spooled: SpooledFile { SpooledFile(name: name, size: size, hash: digest) }

  private func flush() throws(SpoolError) {
    defer { waiting.clear() }
    guard let file else { return hash.update(waiting.bytes) }
    var rest = waiting.bytes
    while !rest.isEmpty {
      let count = Glibc.write(file.number, rest.baseAddress, rest.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw .disk(errno) }
      rest = UnsafeRawBufferPointer(rebasing: rest[count...])
      unseenBytes += count
    }
    if unseenBytes >= IncomingFile.earlyBytes {
      unseenBytes = 0
      spool.storeEarly(file, to: size)
    }
  }

  /// Syncs the file and its folder to the disk, and finishes the hash. Runs on a thread of the spool.
  func sync() throws(SpoolError) {
    guard let file else {
      digest = hash.finish()
      return
    }
    digest = try file.finish(at: size)
    try spool.syncFolder()
    isOver = true
    self.file = nil
    spool.filled(self, promised: promised)
  }

  /// Removes the bytes that came.
  func abandon() {
    guard !isOver, !isOnlyHashed else { return }
    isOver = true
    file = nil
    spool.abandoned(self, promised: promised)
  }
}
