import ChatCache
import ChatModel
import Glibc
import TestFolders
import TestSupport
import Testing

/// `perch cache` and `perch clear`, on a stopped directory and beside a running service.
@Suite struct CacheCommandTests {
  private struct Called {
    let code: Int32
    let said: String
    let complained: String
  }

  private func perch(_ words: [String]) throws -> Called {
    let log = TestFolder.make("call") + "/errors"
    let process = try ChildProcess("perch", words, log: log)
    var said: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 4096)
    while case let count = read(process.output, &room, room.count), count > 0 { said += room[..<count] }
    // The process's output has ended, so the process ends soon: signal 0 only waits.
    let status = process.end(0, within: 20 * patience) ?? -1
    return Called(
      code: status >> 8 & 0xFF, said: String(decoding: said, as: UTF8.self),
      complained: try text(of: log))
  }

  private func text(of path: String) throws -> String {
    guard let file = fopen(path, "re") else { return "" }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 65_536)
    return String(decoding: bytes[..<fread(&bytes, 1, bytes.count, file)], as: UTF8.self)
  }

  /// Accepts an unsent message of alice's.
  private func send(_ port: UInt16) {
    let client = Loopback.connect(port: port)
    defer { close(client) }
    let body = #"{"message":"hello","request_id":"r1"}"#
    #expect(ChildService.ask(client, "POST", "/v1/channels/general/messages", body: body) == 202)
  }

  private func channels(_ folder: String) throws -> Int64 {
    try Cache.summary(directory: folder, channels: 0).info.channels
  }

  @Test("B58: the size and the largest channels are told, of a stopped directory and beside a service")
  func cache() throws {
    let service = try ChildService()
    for isRunning in [true, false] {
      if !isRunning { try #require(service.end(SIGTERM) == 0) }
      let called = try perch(["cache", "--data", service.folder])
      #expect(called.code == 0, "\(called.complained)")
      #expect(called.said.contains("channels  1\n") && called.said.contains("general"))
    }
    let missing = try perch(["cache", "--data", service.folder + "/nowhere"])
    #expect(missing.code == 1 && missing.complained.contains("--data is the data directory of `perch serve`"))
  }

  @Test("B58: everything is cleared, over what is unsent only by force, with and without a service")
  func everything() throws {
    for isRunning in [true, false] {
      let service = try ChildService()
      send(service.port)
      if !isRunning { try #require(service.end(SIGTERM) == 0) }
      let refused = try perch(["clear", "--data", service.folder])
      #expect(refused.code == 1 && refused.complained.contains("1 messages and changes are not sent yet"))
      #expect(try channels(service.folder) == 1)
      let forced = try perch(["clear", "--data", service.folder, "--force"])
      #expect(forced.code == 0, "\(forced.complained)")
      #expect(try channels(service.folder) == 0)
      #expect(try Cache.summary(directory: service.folder, channels: 0).info.unsent == 0)
      _ = service.end(SIGTERM)
    }
  }

  @Test("B58: a service that asks for tokens clears, too, for whoever may read its secret")
  func withTokens() throws {
    let service = try ChildService(auth: "on")
    let channel = try perch(["clear", "--data", service.folder, "--channel", "general"])
    #expect(channel.code == 0 && channel.said == "cleared general\n", "\(channel.complained)")
    let other = service.folder + "/other"
    let file = try #require(fopen(other, "we"))
    fputs(String(repeating: "s", count: 64), file)
    fclose(file)
    let refused = try perch(["clear", "--data", service.folder, "--auth-secret-file", other])
    #expect(refused.code == 1 && refused.complained.contains("401"), "\(refused.complained)")
    #expect(try channels(service.folder) == 1)
    let everything = try perch(["clear", "--data", service.folder])
    #expect(everything.code == 0 && everything.said == "cleared\n", "\(everything.complained)")
    #expect(try channels(service.folder) == 0)
    _ = service.end(SIGTERM)
  }

  @Test("B58: one channel is cleared; of one that is not known nothing is changed")
  func channel() throws {
    for isRunning in [true, false] {
      let service = try ChildService()
      send(service.port)
      if !isRunning { try #require(service.end(SIGTERM) == 0) }
      let unknown = try perch(["clear", "--data", service.folder, "--channel", "nobody's"])
      #expect(unknown.code == 1 && unknown.complained.contains("no channel nobody's is cached"))
      let cleared = try perch(["clear", "--data", service.folder, "--channel", "general"])
      #expect(cleared.code == 0 && cleared.said == "cleared general\n", "\(cleared.complained)")
      // The unsent row and the channel's own row stay.
      let left = try Cache.summary(directory: service.folder, channels: 0).info
      #expect(left.unsent == 1 && left.channels == 1)
      _ = service.end(SIGTERM)
    }
    #expect(try perch(["clear", "--channel"]).complained.contains("--channel needs a value"))
    let service = try ChildService()
    #expect(service.end(SIGTERM) == 0)
    let empty = try perch(["clear", "--data", service.folder, "--channel", ""])
    #expect(empty.code != 0 && empty.complained.contains("--channel is empty"), "\(empty.complained)")
    #expect(try channels(service.folder) == 1)
    let missing = try perch(["clear", "--data", "/nowhere/at/all"])
    #expect(missing.code == 1 && missing.complained.contains("/nowhere/at/all"))
  }

  @Test("B55, B56: size and order are read again on SIGHUP; what cannot be read changes nothing")
  func reread() throws {
    let settings = TestFolder.make("settings")
    func write(_ name: String, _ text: String) throws {
      let file = try #require(fopen(settings + "/" + name, "we"))
      defer { fclose(file) }
      fputs(text, file)
    }
    try write("size", "100MB\n")
    try write("order", "cached_bytes:desc\n")
    let service = try ChildService([
      "--cache-max-size-file", settings + "/size", "--cache-clear-order-file", settings + "/order",
    ])
    func told() -> String {
      let client = Loopback.connect(port: service.port)
      defer { close(client) }
      return ChildService.answer(client, "GET", "/v1/cache").body
    }
    func waits(for text: String) -> Bool {
      for _ in 0..<Int(200 * patience) {
        if told().contains(text) { return true }
        usleep(20_000)
      }
      return false
    }
    #expect(told().contains(#""max_size_bytes":104857600"#) && told().contains(#""cached_bytes""#))
    try write("size", "9223372036854775807")
    try write("order", "by luck")
    service.send(SIGHUP)
    #expect(waits(for: #""max_size_bytes":9223372036854775807"#))
    #expect(told().contains(#"{"field":"accessed_at","direction":"asc"}"#))
    #expect(service.log.contains("the clear order cannot be read"))
    try write("size", "plenty")
    service.send(SIGHUP)
    for _ in 0..<Int(200 * patience) where !service.log.contains("cache_limit_not_reread") { usleep(20_000) }
    #expect(service.log.contains("plenty is not a size such as"))
    try write("size", "1KB")
    service.send(SIGHUP)
    #expect(waits(for: #""max_size_bytes":67108864"#))
    #expect(service.end(SIGTERM) == 0)
  }
}
