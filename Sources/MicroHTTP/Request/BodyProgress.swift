/// The result of handing bytes of a body from libmicrohttpd to the server.
enum BodyProgress {
  /// The server took the bytes.
  case taken
  /// The connection is suspended. libmicrohttpd hands the same bytes over again when it is resumed.
  case waiting
  /// The connection is to be closed.
  case cut
}
