import ChatCache
import ChatModel
import JSON
import Platform

@testable import ChatSync

/// The fake server's writes in the upstream's HTTP API.
extension WireServer {
  /// The answer to a request that writes; nil for one that reads.
  static func written(
    _ request: String, _ path: [String], _ query: [String: String], _ fake: FakeUpstream
  ) async throws -> String? {
    let method = request.prefix { $0 != " " }
    guard method != "GET" else { return nil }
    let body = try fields(request)
    guard path.count >= 3, path[0] == "group_channels", path[2] == "messages" else {
      throw UpstreamError.rejection(code: 400930, message: "no such endpoint")
    }
    let url = ChannelURL(path[1])
    let user = UserID(body["user_id"] ?? query["user_id"] ?? "")
    let id = path.count > 3 ? Int64(path[3]) ?? 0 : 0
    switch (method, path.count, path.last) {
    case ("POST", 3, _):
      guard body["message_type"] == "MESG" else {
        throw UpstreamError.rejection(code: 400111, message: "message_type")
      }
      let made = try await fake.post(body["message"] ?? "", body["dedup_id"] ?? "", user, url)
      return json(FakeUpstream.record(made))
    case ("PUT", 4, "mark_as_read"):
      try await fake.markAsRead(url, as: user, .open)
      return "{}"
    case ("PUT", 4, _):
      guard body["message_type"] == "MESG" else {
        throw UpstreamError.rejection(code: 400105, message: "message_type")
      }
      let params = Array("{\"message\":\"\(body["message"] ?? "")\"}".utf8)
      let edit = OutgoingEdit(user: user, kind: .user, params: params)
      return json(try await fake.edit(message: id, in: url, edit, .open))
    case ("DELETE", 4, _):
      try await fake.delete(message: id, in: url, .open)
      return "{}"
    case ("POST", 5, "reactions"):
      try await fake.react(to: id, in: url, as: user, key: body["reaction"] ?? "", isAdded: true, .open)
      return "{\"success\":true}"
    case ("DELETE", 5, "reactions"):
      try await fake.react(
        to: id, in: url, as: user, key: decoded(query["reaction"] ?? ""), isAdded: false, .open)
      return "{\"success\":true}"
    default: throw UpstreamError.rejection(code: 400930, message: "no such endpoint")
    }
  }

  /// A query's value without its percent signs.
  private static func decoded(_ value: String) -> String {
    var bytes: [UInt8] = []
    var rest = Array(value.utf8)[...]
    while let byte = rest.popFirst() {
      let hex =
        byte == UInt8(ascii: "%") ? UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) : nil
      bytes.append(hex ?? byte)
      if hex != nil { rest = rest.dropFirst(2) }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// The body's text fields by name.
  private static func fields(_ request: String) throws -> [String: String] {
    let body = request.split(separator: "\r\n\r\n", maxSplits: 1).dropFirst().first.map(String.init) ?? ""
    guard !body.isEmpty else { return [:] }
    return try JSONParser().parse(body) { root in
      var fields: [String: String] = [:]
      for field in root.fields { fields[String(decoding: field.name, as: UTF8.self)] = field.value.string }
      return fields
    }
  }
}
