/// What became of the bytes of a body that libmicrohttpd showed.
enum BodyProgress {
  /// They were taken.
  case taken
  /// The connection is suspended and shows them again.
  case waiting
  /// The connection is to be closed.
  case cut
}
