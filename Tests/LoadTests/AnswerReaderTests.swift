import Testing

@testable import Load

/// HTTP answers, cut out of a stream of bytes.
struct AnswerReaderTests {
  private static let stream =
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"
    + "HTTP/1.1 204 No Content\r\n\r\n"
    + "HTTP/1.1 404 Not Found\r\ncontent-length:3\r\nConnection: Close\r\n\r\nno\n"

  @Test("answers come whole, wherever the stream is cut", arguments: 1...40)
  func pieces(size: Int) throws {
    var reader = AnswerReader()
    var found: [String] = []
    let bytes = Array(Self.stream.utf8)
    for start in stride(from: 0, to: bytes.count, by: size) {
      reader.add(bytes[start..<min(start + size, bytes.count)])
      while let answer = try reader.next({
        "\($0.status) \($0.isLast) \(String(decoding: $1, as: UTF8.self))"
      }) {
        found.append(answer)
      }
    }
    #expect(found == ["200 false hello", "204 false ", "404 true no\n"])
  }

  @Test(
    "an answer without a length, or that is no HTTP, is refused",
    arguments: [
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "SSH-2.0\r\n\r\n", "HTTP/1.1 x\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    ])
  func malformed(text: String) {
    var reader = AnswerReader()
    reader.add(text.utf8)
    #expect(throws: AnswerReader.Malformed.self) { _ = try reader.next { _, _ in } }
  }
}
