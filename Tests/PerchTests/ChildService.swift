import ChatCache
import ChatModel
import Glibc
import JSON
import Platform
import TestFolders
import TestSupport
import Testing

/// `perch serve` as a process of its own, over a cache with one user and one channel. It is killed at the
/// latest when this value is freed.
final class ChildService {
  /// The service ended before it listened.
  struct NotListening: Error { let said: String }

  private let process: ChildProcess
  let port: UInt16
  let folder: String

  /// Starts it with `words` as further arguments; `errors` gets its standard error. `old`: the folder of an
  /// ended service, to go on with. `listen`: the port; 0: any.
  init(
    _ words: [String] = [], errors: Int32? = nil, files: Int? = nil, over old: String? = nil,
    listen: UInt16 = 0, auth: String = "off"
  ) throws {
    folder = old ?? TestFolder.make("service")
    if old == nil { try ChildService.fill(folder) }
    process = try ChildProcess(
      "perch", ["serve", "--listen", "127.0.0.1:\(listen)", "--auth", auth, "--data", folder] + words,
      log: errors == nil ? folder + "/log" : nil, errors: errors, files: files)
    var line: [UInt8] = []
    var byte: UInt8 = 0
    var ready = pollfd(fd: process.output, events: Int16(POLLIN), revents: 0)
    while poll(&ready, 1, Int32(15_000 * patience)) == 1, Glibc.read(process.output, &byte, 1) == 1,
      byte != 10
    {
      line.append(byte)
    }
    let text = String(decoding: line, as: UTF8.self)
    guard let port = text.split(separator: ":").last.flatMap({ UInt16($0) }) else {
      throw NotListening(said: text)
    }
    self.port = port
  }

  /// Fills a cache as for a synced user.
  private static func fill(_ folder: String) throws {
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    var json = JSONWriter()
    json.field("channel_url", "general")
    let record = ChannelRecord(
      url: ChannelURL("general"), name: "General", customType: "", createdAt: 1, isDistinct: false,
      isPublic: false, isSuper: false, isFrozen: false, memberCount: 1, joinedMemberCount: 1,
      body: json.finish().array, lastMessage: .absent,
      membership: MembershipRecord(
        state: .joined, isOperator: false, isMuted: false, hiddenState: "unhidden", floorAt: 0, lastReadAt: 0,
        unread: 0, mentions: 0, joinedAt: 1, invitedAt: 0))
    try cache.write { writer in
      try writer.acknowledge(UserID("alice"))
      _ = try writer.store([record], of: UserID("alice"), .refresh(.channelChanged))
      try writer.endListing(of: UserID("alice"))
    }
  }

  /// How many files it has open.
  var openFiles: Int { process.openFiles }

  /// Limits the size of its files from now on; nil: no limit.
  func limit(fileBytes: UInt?) -> Bool { process.limit(fileBytes: fileBytes) }

  /// Sends a signal.
  func send(_ signal: Int32) { process.send(signal) }

  /// Sends a signal and waits for the end. Returns the exit code; nil if the process was killed.
  func end(_ signal: Int32) -> Int32? {
    guard let status = process.end(signal, within: 15 * patience), status & 0x7F == 0 else { return nil }
    return status >> 8 & 0xFF
  }

  /// The log in its file.
  var log: String {
    guard let file = fopen(folder + "/log", "re") else { return "" }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    let count = fread(&bytes, 1, bytes.count, file)
    return String(decoding: bytes[..<count], as: UTF8.self)
  }

  /// Sends a request on a connection that stays open. Returns the status; 0 if no answer comes.
  func ask(_ socket: Int32, _ method: String, _ path: String, body: String = "") -> Int {
    ChildService.ask(socket, method, path, body: body)
  }

  /// The same for a service that is about to start.
  static func ask(_ socket: Int32, _ method: String, _ path: String, body: String = "") -> Int {
    answer(socket, method, path, body: body).status
  }

  /// The same with the body.
  static func answer(
    _ socket: Int32, _ method: String, _ path: String, body: String = ""
  ) -> (status: Int, body: String) {
    let length =
      body.isEmpty ? "" : "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n"
    let request = "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\nPerch-User: alice\r\n\(length)\r\n\(body)"
    guard Glibc.send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL)) > 0 else { return (0, "") }
    var bytes: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 65_536)
    while case let count = recv(socket, &room, room.count, 0), count > 0 {
      bytes += room[..<count]
      guard let end = bytes.firstRange(of: [13, 10, 13, 10]) else { continue }
      let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n")
      let length = lines.first { $0.lowercased().hasPrefix("content-length:") }
        .flatMap { Int($0.split(separator: " ").last ?? "") }
      guard bytes.count >= end.upperBound + (length ?? 0) else { continue }
      let status = lines.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
      return (status, String(decoding: bytes[end.upperBound...], as: UTF8.self))
    }
    return (0, "")
  }
}
