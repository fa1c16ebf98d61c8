import Glibc

/// A connection that was accepted and that no worker has taken up yet.
struct NewConnection: Sendable {
  let socket: Int32
  var address: sockaddr_storage
  let length: socklen_t
}
