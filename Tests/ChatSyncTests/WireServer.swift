import ChatCache
import ChatModel
import Platform

@testable import ChatSync

/// The fake server behind a real socket, with the upstream's HTTP API.
struct WireServer {
  let fake = FakeUpstream()
  let raw: RawServer
  /// Returns a false answer for a request's target; nil: the true answer is sent.
  let garble = Guarded<@Sendable (String) -> RawServer.Answer?>({ _ in nil })
  var base: String { "http://127.0.0.1:\(raw.port)" }

  init() {
    let (fake, garble) = (fake, garble)
    raw = RawServer { request in
      let target = request.split(separator: " ").dropFirst().first.map(String.init) ?? ""
      if let garbage = garble.withLock({ $0 })(target) { return garbage }
      let answer = Watched<RawServer.Answer?>(nil)
      Task {
        let text = await WireServer.answer(request, fake)
        answer.update { $0 = text }
      }
      return answer.wait { $0 } ?? .hangUp
    }
  }

  private static func answer(_ request: String, _ fake: FakeUpstream) async -> RawServer.Answer {
    do {
      return RawServer.ok(try await body(request, fake), headers: "Content-Type: application/json\r\n")
    } catch let error as UpstreamError {
      switch error {
      case .rejection(let code, let message):
        let json = "{\"error\":true,\"code\":\(code),\"message\":\"\(message)\"}"
        return .text("HTTP/1.1 400 Bad Request\r\nContent-Length: \(json.utf8.count)\r\n\r\n\(json)")
      case .rateLimited:
        return .text("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 2\r\n\r\n{}")
      case .unusable: return .text("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>")
      default: return .hangUp
      }
    } catch { return .hangUp }
  }

  private static func body(_ request: String, _ fake: FakeUpstream) async throws -> String {
    let target = request.split(separator: " ").dropFirst().first.map(String.init) ?? ""
    let halves = target.split(separator: "?", maxSplits: 1).map(String.init)
    let path = halves[0].split(separator: "/").dropFirst().map(String.init)
    var query: [String: String] = [:]
    for pair in (halves.count > 1 ? halves[1] : "").split(separator: "&") {
      let parts = pair.split(separator: "=", maxSplits: 1).map(String.init)
      query[parts[0]] = parts.count > 1 ? parts[1] : ""
    }
    if let answer = try await written(request, path, query, fake) { return answer }
    let since: ChangesSince =
      query["token"].map { .token(SyncToken($0)) } ?? .time(Int64(query["change_ts"] ?? "") ?? 0)
    switch (path.first, path.count, path.last) {
    case ("users", 1, _):
      try await fake.probe()
      return "{\"users\":[],\"next\":\"\"}"
    case ("users", 2, _):
      _ = try await fake.user(UserID(path[1]), .open)
      return "{\"user_id\":\"\(path[1])\",\"nickname\":\"\",\"is_active\":true}"
    case ("users", _, "my_group_channels"):
      let page = try await fake.channels(
        of: UserID(path[1]), order: query["order"] == "chronological" ? .creation : .lastMessage,
        limit: Int(query["limit"] ?? "") ?? 10, after: query["token"], .open)
      return
        "{\"channels\":[\(page.items.map(json).joined(separator: ","))],\"next\":\"\(page.next ?? "")\",\"ts\":0}"
    case ("users", _, "changelogs"):
      let changes = try await fake.channelChanges(
        of: UserID(path[1]), since: since, hasMembers: query["show_member"] != "false", .open)
      let deleted = changes.deleted.map { "\"\($0.text)\"" }.joined(separator: ",")
      return "{\"updated\":[\(changes.updated.map(json).joined(separator: ","))],\"deleted\":[\(deleted)],"
        + "\"has_more\":\(changes.hasMore),\"next\":\"\(changes.next?.text ?? "")\"}"
    case ("group_channels", 2, _):
      return json(try await fake.channel(ChannelURL(path[1]), as: query["user_id"].map { UserID($0) }, .open))
    case ("group_channels", 4, _) where path[2] == "members":
      return "{\"is_member\":\(try await fake.isMember(UserID(path[3]), of: ChannelURL(path[1]), .open))}"
    case ("group_channels", 3, "messages"):
      let page = try await fake.messages(
        in: ChannelURL(path[1]), try window(query, ChannelURL(path[1]), fake), .open)
      return "{\"messages\":[\(page.items.map(json).joined(separator: ","))]}"
    case ("group_channels", 4, "changelogs"):
      let changes = try await fake.messageChanges(in: ChannelURL(path[1]), since: since, .open)
      let deleted = changes.deleted.map { "{\"message_id\":\($0),\"deleted_at\":1}" }.joined(separator: ",")
      return "{\"updated\":[\(changes.updated.map(json).joined(separator: ","))],\"deleted\":[\(deleted)],"
        + "\"has_more\":\(changes.hasMore),\"next\":\"\(changes.next?.text ?? "")\"}"
    case ("group_channels", 4, _):
      return json(try await fake.message(Int64(path[3]) ?? 0, in: ChannelURL(path[1]), .open))
    default: throw UpstreamError.rejection(code: 400930, message: target)
    }
  }

  private static func window(
    _ query: [String: String], _ url: ChannelURL, _ fake: FakeUpstream
  ) throws -> MessageWindow {
    var anchor = MessageWindow.Anchor.time(Int64(query["message_ts"] ?? "") ?? 0)
    if anchor == .time(Endpoint.newest) { anchor = .newest }
    if let id = query["message_id"].flatMap({ Int64($0) }) {
      let messages = fake.state.withLock { $0.channels[url]?.messages ?? [] }
      guard let found = messages.first(where: { $0.id == id }) else {
        throw UpstreamError.rejection(code: 400201, message: "no such message")
      }
      anchor = .message(found.position)
    }
    return MessageWindow(
      anchor, older: Int(query["prev_limit"] ?? "") ?? 0, newer: Int(query["next_limit"] ?? "") ?? 0,
      includesAnchor: query["include"] == "true")
  }

  static func json(_ message: MessageRecord) -> String {
    let text = String(decoding: message.body, as: UTF8.self)
    return
      "{\"message_id\":\(message.messageID),\"type\":\"MESG\",\"message\":\"\(text)\","
      + "\"user\":{\"user_id\":\"\(message.sender)\"},\"req_id\":\"\(message.requestID)\","
      + "\"created_at\":\(message.createdAt),\"updated_at\":\(message.updatedAt),\"custom_type\":\"\"}"
  }

  private static func json(_ channel: ChannelRecord) -> String {
    var last = "null"
    if case .message(let message) = channel.lastMessage { last = json(message) }
    // Like a real server, it tells who is no member nothing about a membership.
    let state = channel.membership?.state ?? .outside
    let own = state == .outside ? "" : ",\"member_state\":\"\(state.rawValue)\""
    return "{\"channel_url\":\"\(channel.url.text)\",\"name\":\"\",\"created_at\":1,"
      + "\"last_message\":\(last)\(own)}"
  }
}
