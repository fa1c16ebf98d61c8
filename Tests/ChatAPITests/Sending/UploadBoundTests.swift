import Glibc
import TestSupport
import Testing

@testable import ChatAPI
@testable import ChatCache

/// Forms without a `Content-Length` (B45).
@Suite(.timeLimit(.minutes(5))) struct UploadBoundTests {
  private static let limit = 26_214_400
  private static let before = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
  private static let end = "\r\n--b--\r\n"

  /// Sends a form in chunks: the part before the file, the file's bytes, the part after it, then `further`
  /// bytes. Returns the first bytes of the answer.
  private static func send(_ world: CollectionWorld, bytes: Int, further: Int = 0) -> String {
    let socket = Loopback.connect(port: world.server.port)
    defer { close(socket) }
    func put(_ bytes: [UInt8]) -> Bool {
      var rest = bytes[...]
      while !rest.isEmpty {
        let count = rest.withUnsafeBytes { Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        guard count > 0 else { return false }
        rest = rest.dropFirst(count)
      }
      return true
    }
    func chunk(_ bytes: [UInt8]) -> Bool {
      put(Array("\(String(bytes.count, radix: 16))\r\n".utf8) + bytes + Array("\r\n".utf8))
    }
    let head =
      "POST /v1/channels/general/messages HTTP/1.1\r\nHost: x\r\nPerch-User: alice\r\n"
      + "Transfer-Encoding: chunked\r\nContent-Type: multipart/form-data; boundary=b\r\n\r\n"
    var isOpen = put(Array(head.utf8)) && chunk(Array(before.utf8))
    for (count, byte) in [(bytes, UInt8(ascii: "x")), (0, 0), (further, UInt8(ascii: "e"))] {
      if count == 0, byte == 0 { isOpen = isOpen && chunk(Array(end.utf8)) }
      for start in stride(from: 0, to: count, by: 1 << 16) where isOpen {
        isOpen = chunk([UInt8](repeating: byte, count: min(1 << 16, count - start)))
      }
    }
    if isOpen { _ = put(Array("0\r\n\r\n".utf8)) }
    var room = [UInt8](repeating: 0, count: 4096)
    let count = recv(socket, &room, room.count, 0)
    return String(decoding: room.prefix(max(0, count)), as: UTF8.self)
  }

  @Test("B45: a file of unannounced length is taken up to 25 MiB; beyond it is a 413 that leaves nothing")
  func chunked() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    for (bytes, further) in [(limit + 1, 0), (limit * 2, 0), (1, limit + 1_000_000)] {
      let answer = Self.send(world, bytes: bytes, further: further)
      #expect(answer.hasPrefix("HTTP/1.1 413 "), "\(bytes) and \(further): \(answer)")
      #expect(answer.contains(#""code":"content_too_large""#), "\(bytes) and \(further): \(answer)")
      #expect(try UploadTests.isEmpty(world) && world.rows().isEmpty, "\(bytes) and \(further)")
    }
    #expect(Self.send(world, bytes: limit).hasPrefix("HTTP/1.1 202 "))
    #expect(world.cache.spool.contents == (limit, 1))
  }

  private var limit: Int { Self.limit }
}
