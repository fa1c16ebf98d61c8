/// What the head of a request showed on its one pass.
struct HeaderNotes {
  var names = NameSet()
  var contentLength: Int?
  var isChunked = false
  /// Whether the connection ends with the answer: HTTP/1.0, or a `Connection` header that may say so.
  var endsConnection = false
  /// Bytes that the head leaves free in libmicrohttpd's pool, as far as 16 bits tell them.
  var freeBytes: UInt16 = 0

  var hasBody: Bool { isChunked || (contentLength ?? 0) > 0 }
}
