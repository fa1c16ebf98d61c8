/// What the server found in its one pass over a request's head.
struct HeaderNotes {
  var names = NameSet()
  var contentLength: Int?
  var isChunked = false
  /// Whether the connection ends with the answer: HTTP/1.0, or a `Connection` header that may say so.
  var endsConnection = false
  /// Bytes that the head leaves free in libmicrohttpd's pool, clamped to 16 bits.
  var freeBytes: UInt16 = 0

  var hasBody: Bool { isChunked || (contentLength ?? 0) > 0 }
}
