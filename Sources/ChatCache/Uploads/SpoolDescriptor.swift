import CLinux
import Glibc
import Platform
import Synchronization

/// The descriptor of a file that comes in. Threads of the spool hash its bytes and begin to store them while
/// a worker thread still writes.
///
/// It is closed when the last thread releases it.
final class SpoolDescriptor: Sendable {
  /// The system's number for it.
  let number: Int32
  private let progress = Guarded(Progress())
  private let isStoringEarly = Atomic<Bool>(false)

  /// How far the threads of the spool have come. One thread at a time changes it.
  private struct Progress {
    let hash = FileHash()
    /// The number of bytes that are hashed.
    var size = 0
  }

  /// The most bytes of one look at a file that still comes in.
  private static let earlyBytes = 4 << 20
  /// The bytes that are read at once for the hash.
  private static let pieceBytes = 128 << 10

  /// Takes over an open descriptor.
  init(_ number: Int32) { self.number = number }

  deinit { close(number) }

  /// Hashes bytes up to `size`, which are written already, and has the kernel begin to store them. It leaves
  /// what is more than a few megabytes to the next call.
  func store(to size: Int) throws(SpoolError) {
    try progress.withLock { progress throws(SpoolError) in
      let first = progress.size
      try hash(to: min(size, first + SpoolDescriptor.earlyBytes), &progress)
      begin_writing_back(number, Int64(first), Int64(progress.size - first))
    }
  }

  /// Hashes the rest of the file, which has `size` bytes, and syncs it to the disk. Returns the hash.
  func finish(at size: Int) throws(SpoolError) -> [UInt8] {
    try progress.withLock { progress throws(SpoolError) in
      try hash(to: size, &progress)
      guard fsync(number) == 0 else { throw .disk(errno) }
      return progress.hash.finish()
    }
  }

  private func hash(to size: Int, _ progress: inout Progress) throws(SpoolError) {
    guard progress.size < size else { return }
    let piece = UnsafeMutableRawBufferPointer.allocate(
      byteCount: SpoolDescriptor.pieceBytes, alignment: MemoryLayout<UInt64>.alignment)
    defer { piece.deallocate() }
    while progress.size < size {
      let count = pread(
        number, piece.baseAddress, min(piece.count, size - progress.size), off_t(progress.size))
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw .disk(count < 0 ? errno : EIO) }
      progress.hash.update(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(piece)[..<count]))
      progress.size += count
    }
  }

  /// Begins to store bytes before the file is complete. False: a thread does so already.
  func beginEarly() -> Bool { !isStoringEarly.exchange(true, ordering: .relaxed) }

  /// Ends what `beginEarly` began.
  func endEarly() { isStoringEarly.store(false, ordering: .relaxed) }
}
