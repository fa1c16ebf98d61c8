import Glibc

/// The block of memory that libmicrohttpd has for a connection. Its ends are used when a head is read; its
/// middle is first written to when the first answer was sent, which is cleared away then.
enum ConnectionMemory {
  private static let pageBytes = UInt(sysconf(Int32(_SC_PAGESIZE)))

  /// Makes it all present, so that nobody waits for pages when many parked requests are answered at once:
  /// they cost more than all else that waking a request does.
  ///
  /// `head`: the request's, which lies at its beginning. Asking for a page more than the block has does no
  /// harm, and a kernel that cannot do it (before 5.14) leaves all as it was.
  static func fill(from head: UnsafePointer<CChar>, bytes: Int) {
    let next = (UInt(bitPattern: head) / pageBytes + 1) * pageBytes
    let end = UInt(bitPattern: head) + UInt(bytes)
    guard next < end else { return }
    madvise(UnsafeMutableRawPointer(bitPattern: next), Int(end - next), MADV_POPULATE_WRITE)
  }
}
