import Glibc

/// Keeps libmicrohttpd from taking the query apart.
///
/// Version 0.9.75 makes an entry of 64 bytes in the connection's memory for each item of the query, and the
/// server reads none of them. When that memory is full, the library refuses the request in the middle of its
/// line, and then neither sends the refusal nor reports that the request is over. Right before it reads the
/// query, it calls its URI callback. So the callback, which has copied the query, makes it empty.
///
/// Only for a version whose buffer is known (`LibraryCheck`). With other versions a query of very many items
/// gets a 431.
enum QueryArguments {
  /// `target`: the target in the library's own buffer, as its URI callback gets it.
  static func hide(in target: UnsafePointer<CChar>) {
    guard let mark = strchr(target, Int32(UInt8(ascii: "?"))) else { return }
    mark[1] = 0
  }
}
