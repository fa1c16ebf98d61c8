import Glibc

/// Two sockets that are connected with each other. In a file of its own: where CMicroHTTPD is imported too,
/// Swift does not find the sockets' flags.
enum SocketPair {
  static func make() -> (ours: Int32, daemons: Int32)? {
    var pair: (Int32, Int32) = (-1, -1)
    let made = withUnsafeMutableBytes(of: &pair) {
      socketpair(
        AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0,
        $0.assumingMemoryBound(to: Int32.self).baseAddress!)
    }
    return made == 0 ? (pair.0, pair.1) : nil
  }
}
