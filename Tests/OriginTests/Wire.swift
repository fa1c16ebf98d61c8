import Glibc
import TestSupport
import Testing

@testable import Origin

/// A stand-in on a port of its own and a client over real sockets, one connection a request.
final class Wire {
  struct Answer {
    let status: Int
    let head: String
    let body: String

    /// The value of a header, ignoring the case of its name.
    func header(_ name: String) -> String? {
      head.split(separator: "\r\n").first { $0.lowercased().hasPrefix(name.lowercased() + ":") }.map {
        String($0.dropFirst(name.utf8.count + 1).drop { $0 == " " })
      }
    }
  }

  let origin: OriginServer
  /// The folder of its data, which is removed after it.
  private let scratch: Scratch?

  /// A fresh server has alice and bob in `general`, carol and dave outside.
  init(in scratch: Scratch? = nil, seed: Seed = .none, isFresh: Bool = true, webhookURL: String? = nil) throws
  {
    var configuration = OriginServer.Configuration()
    configuration.webhookURL = webhookURL
    self.scratch = scratch
    configuration.dataPath = scratch?.path ?? ":memory:"
    configuration.seed = seed
    origin = try OriginServer(configuration)
    try origin.start()
    guard isFresh else { return }
    for user in ["alice", "bob", "carol", "dave"] {
      _ = try call("POST", "/v3/users", #"{"user_id":"\#(user)","nickname":"\#(user)","profile_url":""}"#)
    }
    _ = try call(
      "POST", "/v3/group_channels", #"{"channel_url":"general","user_ids":["alice","bob"]}"#)
  }

  deinit { origin.stop() }

  func get(_ path: String) throws -> Value { try call("GET", path) }

  func call(_ method: String, _ path: String, _ body: String = "") throws -> Value {
    Value(stored: try #require(exchange(method, path, body)).body)
  }

  func send(_ channel: String, _ text: String, at time: Int64? = nil) throws -> Int64 {
    let moment = time.map { #","created_at":\#($0)"# } ?? ""
    let sent = try call(
      "POST", "/v3/group_channels/\(channel)/messages",
      #"{"message_type":"MESG","user_id":"alice","message":"\#(text)"\#(moment)}"#)
    return try #require(sent["message_id"]?.integer)
  }

  func reply(to parent: Int64, _ text: String, by user: String = "bob") throws -> Int64 {
    let sent = try call(
      "POST", "/v3/group_channels/general/messages",
      #"{"message_type":"MESG","user_id":"\#(user)","message":"\#(text)","parent_message_id":\#(parent)}"#)
    return try #require(sent["message_id"]?.integer)
  }

  /// The code with which a request is refused; nil when it is not.
  func code(_ method: String, _ path: String, _ body: String = "") throws -> Int64? {
    try call(method, path, body)["code"]?.integer
  }

  /// A multipart form of (name, file name, media type, content).
  func upload(_ path: String, _ parts: [(String, String?, String?, String)]) -> Answer? {
    var body = ""
    for (name, fileName, type, content) in parts {
      body += "--cut\r\nContent-Disposition: form-data; name=\"\(name)\""
      if let fileName { body += "; filename=\"\(fileName)\"" }
      if let type { body += "\r\nContent-Type: \(type)" }
      body += "\r\n\r\n\(content)\r\n"
    }
    return exchange("POST", path, body + "--cut--\r\n", type: "multipart/form-data; boundary=cut")
  }

  /// One request; nil when there is no whole answer within `seconds`.
  func exchange(
    _ method: String, _ path: String, _ body: String = "", seconds: Int = 10,
    type: String = "application/json",
    token: String = "Api-Token: origin"
  ) -> Answer? {
    let socket = Loopback.connect(port: origin.port, seconds: Double(seconds))
    defer { close(socket) }
    let request =
      "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n\(token)\r\nConnection: close\r\n"
      + "Content-Type: \(type)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    guard socket >= 0, Glibc.send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL)) > 0 else {
      return nil
    }
    var bytes: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = recv(socket, &room, room.count, 0)
      if count < 0 { return nil }
      if count == 0 { break }
      bytes += room[..<count]
    }
    let text = String(decoding: bytes, as: UTF8.self)
    let ending = Array("\r\n\r\n".utf8)
    guard let stop = bytes.indices.first(where: { bytes[$0...].starts(with: ending) }),
      let status = Int(text.dropFirst(9).prefix(3))
    else { return nil }
    return Answer(
      status: status, head: String(decoding: bytes[..<stop], as: UTF8.self),
      body: String(decoding: bytes[(stop + 4)...], as: UTF8.self))
  }
}
