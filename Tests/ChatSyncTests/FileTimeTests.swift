import ChatCache
import ChatModel
import Glibc
import TestFolders
import Testing

@testable import ChatSync

/// How long the upload of a file to the chat server may take (B45).
@Suite(.timeLimit(.minutes(2))) struct FileTimeTests {
  private static func file(_ size: Int) throws -> OutgoingFile {
    let path = TestFolder.make("file") + "/f"
    let file = try #require(fopen(path, "we"))
    defer { fclose(file) }
    let bytes = [UInt8](repeating: 7, count: size)
    try #require(fwrite(bytes, 1, size, file) == size)
    return OutgoingFile(path: path, name: "f", mime: "image/png", size: Int64(size))
  }

  @Test("B45: a file may take 30 s and one more for each 16 KiB")
  func limit() {
    let largest = OutgoingFile(path: "", name: "", mime: "", size: 26_214_400)
    #expect(FileTime().milliseconds(of: largest) == 30_000 + 1_600_000)
    let smallest = OutgoingFile(path: "", name: "", mime: "", size: 1)
    #expect(FileTime().milliseconds(of: smallest) == 30_000)
  }

  @Test("B45: a larger file is given up later, by itself and with its message", arguments: [true, false])
  func silence(byItself: Bool) async throws {
    let server = RawServer { _ in .silence }
    defer { server.close() }
    var times = HTTPClient.Configuration()
    // A file has limits of its own: those of other requests are shorter.
    times.firstByteMilliseconds = 50
    times.totalMilliseconds = 50
    let client = HTTPClient(times)
    defer { client.close() }
    var configuration = SendbirdUpstream.Configuration(base: "http://127.0.0.1:\(server.port)", token: "t")
    configuration.fileTime.leastMilliseconds = 300
    configuration.fileTime.bytesPerSecond = 10_000
    let upstream = SendbirdUpstream(configuration, client: client)
    var shortest: [Int: Duration] = [:]
    // On a busy machine one try of the small file may take longer than the large one's limit, but not all.
    for (size, least) in [(1, 0.3), (1, 0.3), (1, 0.3), (40_000, 4.3)] {
      let file = try Self.file(size)
      var message = OutgoingMessage(
        requestID: RequestID("r")!, user: UserID("alice"), channel: ChannelURL("general"),
        params: Array(#"{"type":"file"}"#.utf8))
      message.file = file
      let outgoing = message
      let took = await ContinuousClock().measure {
        await #expect(throws: UpstreamError.self) {
          if byItself {
            _ = try await upstream.upload(file) { _, _ in }
          } else {
            _ = try await upstream.send(outgoing, .open)
          }
        }
      }
      #expect(took >= .seconds(least), "\(size) bytes: \(took)")
      shortest[size] = min(took, shortest[size] ?? took)
    }
    #expect(try #require(shortest[1]) < .seconds(4.3))
  }
}
