import Glibc

/// Keeps libmicrohttpd from taking the query apart.
///
/// Version 0.9.75 makes an entry of 64 bytes in the connection's memory for each item of the query, which
/// nobody here reads. When that memory is full it refuses the request in the middle of its line, and then
/// neither sends the refusal nor tells that the request is over. It shows the target to its URI callback
/// right before, and an empty query has no items: so the query, which was copied, is made empty there.
///
/// Only for a version whose buffer is known (`LibraryCheck`). In others a query of very many items is a 431.
enum QueryArguments {
  /// `target`: what the URI callback is shown, in the library's own buffer.
  static func hide(in target: UnsafePointer<CChar>) {
    guard let mark = strchr(target, Int32(UInt8(ascii: "?"))) else { return }
    mark[1] = 0
  }
}
