import Glibc

/// The block of memory that libmicrohttpd has for a connection. Reading a head uses the two ends of the
/// block. Its middle is first written when the block is cleared after the first answer.
enum ConnectionMemory {
  private static let pageBytes = UInt(sysconf(Int32(_SC_PAGESIZE)))

  /// Makes all pages of the block present, so that no request waits for pages when many parked requests are
  /// answered at once: they cost more than all else that waking a request does.
  ///
  /// `head`: the request's head, which lies at the beginning of the block. Asking for a page beyond the block
  /// does no harm. A kernel before 5.14 does nothing.
  static func fill(from head: UnsafePointer<CChar>, bytes: Int) {
    let next = (UInt(bitPattern: head) / pageBytes + 1) * pageBytes
    let end = UInt(bitPattern: head) + UInt(bytes)
    guard next < end else { return }
    madvise(UnsafeMutableRawPointer(bitPattern: next), Int(end - next), MADV_POPULATE_WRITE)
  }
}
