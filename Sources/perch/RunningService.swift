import ChatAPI
import ChatCache
import ChatModel
import ChatSync
import Glibc
import JSON
import Platform

/// A client of the running service that owns the data directory (B65).
///
/// The directory's `address` file says where the service listens. The token is signed with the directory's
/// own secret: whoever may read the directory may sign anyway.
struct RunningService {
  private let base: String
  private let secrets: SigningSecrets
  private let isOnce: Bool

  init(dataDirectory: String, secrets file: SecretFile? = nil, isOnce: Bool = false) throws {
    guard let address = AddressFile(dataDirectory).read() else {
      throw CommandFailure(
        description:
          "\(dataDirectory) is in use by a process that does not say where it listens: stop it first")
    }
    base = address
    secrets = try (file ?? SecretFile(inDataDirectory: dataDirectory)).read()
    self.isOnce = isOnce
  }

  /// Lets the service sync the user, and shows the progress.
  func sync(_ user: UserID) throws -> Int32 {
    let now = Clock.system.wallMilliseconds() / 1000
    let token = BearerToken(user: user.text, scopes: .chat, expires: now + 24 * 3600).signed(with: secrets)
    let client = HTTPClient()
    defer { client.close() }
    var progress = SyncProgress()
    let asked = try requests(client)
    var method = HTTPRequest.Method.put
    while true {
      let headers = ["Authorization: Bearer \(token)", "Prefer: wait=10"]
      let state = try RunningService.read(
        ask(HTTPRequest(method, base + "/v1/connection", headers: headers), client))
      if method == .put && isOnce && state.connection.state == .offline {
        throw CommandFailure(description: "the running service is offline: \(state.reason)")
      }
      method = .get
      let cache = HTTPRequest(.get, base + "/v1/cache", headers: ["Authorization: Bearer \(token)"])
      progress.show(
        state.connection, messages: try RunningService.messages(ask(cache, client)),
        requests: try requests(client) - asked)
      if state.connection.progress.phase == .steady && state.connection.state == .online { break }
      if Signals.arrives(withinMilliseconds: 500) {
        progress.end("stopped")
        return 1
      }
    }
    progress.end("synced by the running service")
    return 0
  }

  /// Lets the service clear a channel's messages, or everything, with an operator's token for that user.
  func clear(_ channel: ChannelURL?, isForced: Bool, as user: UserID) throws {
    let now = Clock.system.wallMilliseconds() / 1000
    let scopes: Scopes = channel == nil ? .admin : [.chat, .admin]
    let token = BearerToken(user: user.text, scopes: scopes, expires: now + 60).signed(with: secrets)
    // The service answers when all is deleted, at the latest after ten seconds and what the disk takes.
    var patience = HTTPClient.Configuration()
    patience.firstByteMilliseconds = 60_000
    patience.totalMilliseconds = 60_000
    let client = HTTPClient(patience)
    defer { client.close() }
    let path = channel.map { "/v1/channels/\(PercentEncoding.encode($0.text))/cache" } ?? "/v1/cache"
    func asked(_ header: String) throws -> HTTPResponse {
      let target = base + path + (isForced && channel == nil ? "?force=true" : "")
      return try ask(HTTPRequest(.delete, target, headers: [header]), client)
    }
    var response = try asked("Authorization: Bearer \(token)")
    // With `--auth off` a header names the user. With tokens that header is refused with a 400.
    if response.status == 401, case let other = try asked("Perch-User: \(user.text)"), other.status != 400 {
      response = other
    }
    guard response.status != 204 else { return }
    // `try?`: an answer that is no problem of this service's has no detail to show.
    let detail = (try? JSONParser.parse(response.body.bytes) { $0["detail"]?.string }) ?? nil
    throw CommandFailure(description: "the running service answers \(response.status): \(detail ?? "")")
  }

  private func ask(_ request: HTTPRequest, _ client: HTTPClient) throws -> HTTPResponse {
    try Waiting.on { try await client.send(request) }
  }

  /// Requests that the service sent to the chat server since its start; 0 if it does not say.
  private func requests(_ client: HTTPClient) throws -> Int {
    let response = try ask(HTTPRequest(.get, base + "/metrics"), client)
    let line = String(decoding: response.body.bytes, as: UTF8.self).split(separator: "\n").first {
      $0.hasPrefix("perch_upstream_requests_total ")
    }
    return line?.split(separator: " ").last.flatMap { Int($0) } ?? 0
  }

  private static func messages(_ response: HTTPResponse) throws -> Int64? {
    try JSONParser.parse(response.body.bytes) { $0["messages"]?.int64 }
  }

  private static func read(_ response: HTTPResponse) throws -> (connection: UserConnection, reason: String) {
    try JSONParser.parse(response.body.bytes) { root in
      guard (200..<300).contains(response.status) else {
        throw CommandFailure(
          description: "the running service answers \(response.status): \(root["detail"]?.string ?? "")")
      }
      let reason = root["error"]?["detail"]?.string ?? root["error"]?["code"]?.string ?? ""
      let sync = root["sync"]
      let phase = sync?["phase"]?.string.flatMap { UserConnection.Progress.Phase(rawValue: $0) }
      let connection = UserConnection(
        UserID(root["user"]?.string ?? ""),
        root["state"]?.string.flatMap { UserConnection.State(rawValue: $0) } ?? .connecting,
        progress: UserConnection.Progress(
          phase ?? .waiting, channelsDone: Int(sync?["channels_done"]?.int64 ?? 0),
          channelsTotal: (sync?["channels_total"]?.int64).map { Int($0) }))
      return (connection, reason)
    }
  }
}

/// `DATA/address`: where the service that owns the directory listens, as a url.
struct AddressFile {
  private let path: String

  init(_ directory: String) { path = directory + "/address" }

  /// Writes a draft and renames it: readers see the whole line or none.
  func write(_ url: String) throws {
    let draft = path + ".new"
    let file = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw CommandFailure(description: "cannot write \(draft)") }
    defer { close(file) }
    let text = Array((url + "\n").utf8)
    guard Glibc.write(file, text, text.count) == text.count, rename(draft, path) == 0 else {
      throw CommandFailure(description: "cannot write \(path)")
    }
  }

  func remove() { unlink(path) }

  func read() -> String? {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var room = [UInt8](repeating: 0, count: 512)
    let count = Glibc.read(file, &room, room.count)
    guard count > 1, room[count - 1] == 10 else { return nil }
    return String(decoding: room[..<(count - 1)], as: UTF8.self)
  }
}
