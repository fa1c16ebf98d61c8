import ChatCache
import ChatModel
import JSON

extension SendbirdUpstream {
  /// See `Upstream`.
  package func send(_ message: OutgoingMessage, _ importance: Importance) async throws -> MessageRecord {
    let body = try OutgoingBody.send(message)
    if let file = message.file {
      var request = request(.send(in: message.channel), try OutgoingBody.form(body, file))
      request.totalMilliseconds = configuration.fileTime.milliseconds(of: file)
      request.stallMilliseconds = configuration.fileTime.stallMilliseconds
      return try await ask(request) { try MessageReading.record($0, in: message.channel) }
    }
    return try await write(.post, .send(in: message.channel), body, importance) {
      try MessageReading.record($0, in: message.channel)
    }
  }

  /// See `Upstream`.
  package func upload(
    _ file: OutgoingFile, progress: @escaping @Sendable (_ sent: Int64, _ total: Int64) -> Void
  ) async throws -> String {
    var request = request(.upload, [OutgoingBody.part(file)])
    request.totalMilliseconds = configuration.fileTime.milliseconds(of: file)
    request.stallMilliseconds = configuration.fileTime.stallMilliseconds
    request.progress = progress
    return try await ask(request) { root in
      guard let url = root["url"]?.string, WebLink.isLink(url),
        url.utf8.count <= SendbirdUpstream.longestFileURL
      else { throw Unreadable(field: "url") }
      return url
    }
  }

  /// The most bytes of a file's url, because clients are redirected to it.
  private static let longestFileURL = 2_048

  private func request(_ endpoint: Endpoint, _ form: [HTTPRequest.Part]) -> HTTPRequest {
    HTTPRequest(
      .post, configuration.base + endpoint.target, headers: ["Api-Token: \(configuration.token)"],
      body: .form(form), importance: .upload)
  }

  /// See `Upstream`.
  package func edit(
    message id: Int64, in url: ChannelURL, _ edit: OutgoingEdit, _ importance: Importance
  ) async throws -> MessageRecord {
    let body = try OutgoingBody.edit(edit)
    return try await write(.put, .change(id, in: url), body, importance) {
      try MessageReading.record($0, in: url)
    }
  }

  /// See `Upstream`.
  package func delete(message id: Int64, in url: ChannelURL, _ importance: Importance) async throws {
    try await write(.delete, .change(id, in: url), nil, importance) { _ in }
  }

  /// See `Upstream`.
  package func react(
    to id: Int64, in url: ChannelURL, as user: UserID, key: String, isAdded: Bool, _ importance: Importance
  ) async throws {
    if isAdded {
      let body = OutgoingBody.reaction(key, of: user)
      try await write(.post, .reactions(to: id, in: url), body, importance) { _ in }
    } else {
      try await write(.delete, .reaction(key, of: user, to: id, in: url), nil, importance) { _ in }
    }
  }

  /// See `Upstream`.
  package func markAsRead(_ url: ChannelURL, as user: UserID, _ importance: Importance) async throws {
    try await write(.put, .readMark(in: url), OutgoingBody.readMark(of: user), importance) { _ in }
  }

  private func write<Result>(
    _ method: HTTPRequest.Method, _ endpoint: Endpoint, _ body: [UInt8]?, _ importance: Importance,
    _ read: (JSONValue) throws -> Result
  ) async throws -> Result {
    let request = HTTPRequest(
      method, configuration.base + endpoint.target, headers: ["Api-Token: \(configuration.token)"],
      body: body.map { .json($0) } ?? .none, importance: importance)
    return try await ask(request, read)
  }
}
