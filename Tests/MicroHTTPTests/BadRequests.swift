/// A raw request that no good client sends, and its allowed outcomes.
struct BadRequest: Sendable, CustomStringConvertible {
  let name: String
  let bytes: [UInt8]
  /// The statuses allowed for the first answer; 0 is a closed connection without one.
  let allowed: [Int]
  /// Whether the client ends its side after sending.
  let endsSending: Bool

  init(_ name: String, _ text: String, _ allowed: Int..., endsSending: Bool = false) {
    self.name = name
    bytes = Array(text.utf8)
    self.allowed = allowed
    self.endsSending = endsSending
  }

  init(_ name: String, bytes: [UInt8], _ allowed: Int...) {
    self.name = name
    self.bytes = bytes
    self.allowed = allowed
    endsSending = false
  }

  var description: String { name }

  private static let get = "GET /hello HTTP/1.1\r\n"
  private static let post = "POST /echo HTTP/1.1\r\n"
  private static let host = "Host: test\r\n"

  static let corpus = lines + targets + headers + framing + smuggling + chunks + sizes + cut

  private static let lines = [
    BadRequest("no version", "GET /hello\r\n" + host + "\r\n", 400, 505, 0, 200),
    BadRequest("version 2.0", "GET /hello HTTP/2.0\r\n" + host + "\r\n", 505, 400),
    BadRequest("version 0.9", "GET /hello HTTP/0.9\r\n" + host + "\r\n", 505, 400),
    BadRequest("version in small letters", "GET /hello http/1.1\r\n" + host + "\r\n", 400, 505),
    BadRequest("version of words", "GET /hello HTTP/one\r\n" + host + "\r\n", 400, 505),
    BadRequest("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, 400),
    BadRequest("only a method", "GET\r\n\r\n", 400, 505, 0),
    BadRequest(
      "binary first line", bytes: [0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3, 13, 10, 13, 10], 400, 505, 0),
    BadRequest("method of brackets", "G[]T /hello HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("method unknown", "BREW /hello HTTP/1.1\r\n" + host + "\r\n", 405),
    BadRequest("method in small letters", "get /hello HTTP/1.1\r\n" + host + "\r\n", 405),
    BadRequest("bare LF after the first line", "GET /hello HTTP/1.1\n" + host + "\r\n", 400),
    BadRequest(
      "NUL in the first line",
      bytes: Array("GET /he".utf8) + [0] + Array("llo HTTP/1.1\r\nHost: t\r\n\r\n".utf8), 400, 404, 505, 0),
  ]

  private static let targets = [
    BadRequest("target without slash", "GET hello HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("target of another scheme", "GET ftp://test/hello HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("target with a space", "GET /hel lo HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("target with a fragment", "GET /hello#top HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("target with a tab", "GET /hel\tlo HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("escape cut short", "GET /items/a%2/parts/b HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("escape at the end", "GET /hello% HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("escape of no digits", "GET /items/a%zz/parts/b HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("escaped NUL", "GET /items/a%00b/parts/c HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("escaped NUL after an unknown path", "GET /no/where/%00 HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("escapes that are not UTF-8", "GET /items/%ff%fe/parts/c HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("overlong UTF-8", "GET /items/%c0%af/parts/c HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("query with a bad escape", "GET /query?a=%g1 HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("query with a NUL", "GET /query?a=%00 HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("query that is not UTF-8", "GET /query?a=%e9 HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("asterisk with GET", "GET * HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("CONNECT", "CONNECT test:443 HTTP/1.1\r\n" + host + "\r\n", 400),
  ]

  private static let headers = [
    BadRequest("no Host", get + "\r\n", 400),
    BadRequest("no Host but others", get + "Accept: */*\r\n\r\n", 400),
    BadRequest("two Hosts", get + host + host + "\r\n", 400),
    BadRequest("two Hosts that differ", get + "Host: a\r\nhost: b\r\n\r\n", 400),
    BadRequest("folded header", get + host + "X-A: b\r\n c\r\n\r\n", 400),
    BadRequest("folded with a tab", get + host + "X-A: b\r\n\tc\r\nX-B: d\r\n\r\n", 400),
    BadRequest("folded first header", get + " X-A: b\r\n" + host + "\r\n", 400),
    BadRequest("header without colon", get + host + "nonsense\r\n\r\n", 400),
    BadRequest("header without name", get + host + ": b\r\n\r\n", 400),
    BadRequest("space before the colon", get + host + "X-A : b\r\n\r\n", 400),
    BadRequest("bare LF after a header", get + "X-A: b\n" + host + "\r\n", 400),
    BadRequest("bare LF after the last header", get + "Host: test\n\r\n", 400),
    BadRequest("bare LFs only", "GET /hello HTTP/1.1\nHost: test\n\n", 400),
    BadRequest("bare CR in a header", get + host + "X-A: b\rX-B: c\r\n\r\n", 400),
    BadRequest(
      "NUL in a header", bytes: Array((get + host + "X-A: b").utf8) + [0] + Array("c\r\n\r\n".utf8), 400, 0),
    BadRequest("control character in a header", get + host + "X-A: b\u{1}c\r\n\r\n", 400),
    BadRequest("brackets in a header name", get + host + "X[A]: b\r\n\r\n", 400),
    BadRequest("expectation unknown", get + host + "Expect: tea\r\n\r\n", 417),
  ]

  private static let framing = [
    BadRequest("length of words", post + host + "Content-Length: ten\r\n\r\n0123456789", 400),
    BadRequest("length with a plus", post + host + "Content-Length: +3\r\n\r\nabc", 400),
    BadRequest("length below zero", post + host + "Content-Length: -1\r\n\r\n", 400),
    BadRequest("length in hexadecimal", post + host + "Content-Length: 0x3\r\n\r\nabc", 400),
    BadRequest("length empty", post + host + "Content-Length: \r\n\r\n", 400),
    BadRequest("length as a list", post + host + "Content-Length: 3, 3\r\n\r\nabc", 400),
    BadRequest(
      "length beyond 64 bits", post + host + "Content-Length: 99999999999999999999\r\n\r\n", 413, 400),
    BadRequest("length at 63 bits", post + host + "Content-Length: 9223372036854775807\r\n\r\n", 413, 400),
    BadRequest("body on a GET beyond what is ignored", get + host + "Content-Length: 100000\r\n\r\n", 413),
  ]

  private static let smuggling = [
    BadRequest("zero byte in the path", "GET /hello\0/x HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("zero byte in the query", "GET /hello?a\0b HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("two spaces after the target", "GET /hello  HTTP/1.1\r\n" + host + "\r\n", 400),
    BadRequest("two equal lengths", post + host + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
    BadRequest("two lengths", post + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
    BadRequest(
      "length and chunks", post + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      400),
    BadRequest(
      "chunks and length", post + host + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
      400),
    BadRequest("space before the length's colon", post + host + "Content-Length : 3\r\n\r\nabc", 400),
    BadRequest(
      "space before the coding's colon", post + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    BadRequest("coding of another name", post + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    BadRequest("coding identity", post + host + "Transfer-Encoding: identity\r\n\r\nabc", 400),
    BadRequest("two codings", post + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    BadRequest(
      "coding twice",
      post + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    BadRequest("coding folded", post + host + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400),
    BadRequest(
      "coding after a bare LF", post + host + "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    BadRequest(
      "coding in HTTP/1.0", "POST /echo HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      400),
    BadRequest(
      "bad one pipelined behind a good one", post + host + "Content-Length: 1\r\n\r\nxGARBAGE\r\n\r\n", 200),
  ]

  private static let chunks = [
    BadRequest(
      "chunk size of words", post + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", 400, 0),
    BadRequest(
      "chunk size below zero", post + host + "Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n", 400,
      0),
    BadRequest(
      "chunk size beyond 64 bits", post + host + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
      400, 413, 0),
    BadRequest(
      "chunk longer than its size", post + host + "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
      400, 0),
    BadRequest(
      "chunk size empty", post + host + "Transfer-Encoding: chunked\r\n\r\n\r\nabc\r\n0\r\n\r\n", 400, 0),
    BadRequest(
      "chunks beyond the limit",
      post + host + "Transfer-Encoding: chunked\r\n\r\n4e20\r\n"
        + String(repeating: "x", count: 20_000) + "\r\n0\r\n\r\n", 413),
  ]

  private static let sizes = [
    BadRequest(
      "target of 20 kB", "GET /" + String(repeating: "a", count: 20_000) + " HTTP/1.1\r\n" + host + "\r\n",
      414, 431, 0),
    BadRequest(
      "header of 6.5 kB", get + host + "X-A: " + String(repeating: "a", count: 6_500) + "\r\n\r\n", 431),
    BadRequest(
      "header of 7 kB", get + host + "X-A: " + String(repeating: "a", count: 7_000) + "\r\n\r\n", 431),
    BadRequest(
      "header of 20 kB", get + host + "X-A: " + String(repeating: "a", count: 20_000) + "\r\n\r\n", 431, 0),
    BadRequest("2 000 headers", get + host + String(repeating: "X-A: b\r\n", count: 2_000) + "\r\n", 431, 0),
    BadRequest("endless first line", String(repeating: "A", count: 20_000), 414, 431, 400, 0),
  ]

  private static let cut = [
    BadRequest("nothing", "", 0, endsSending: true),
    BadRequest("cut in the method", "GE", 0, endsSending: true),
    BadRequest("cut in the target", "GET /hel", 0, endsSending: true),
    BadRequest("cut in a header", get + "Hos", 0, endsSending: true),
    BadRequest("cut before the empty line", get + host, 0, endsSending: true),
    BadRequest("cut in the body", post + host + "Content-Length: 10\r\n\r\nabc", 0, 400, endsSending: true),
    BadRequest(
      "cut in a chunk", post + host + "Transfer-Encoding: chunked\r\n\r\na\r\nabc", 0, 400, endsSending: true),
    BadRequest("empty lines only", "\r\n\r\n\r\n", 0, 400, endsSending: true),
  ]
}
