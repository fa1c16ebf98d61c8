import ChatCache
import ChatModel
import JSON
import Platform

/// The adapter for servers that speak the Sendbird Platform API.
package final class SendbirdUpstream: Upstream {
  /// The server's address and key, and the time for files.
  package struct Configuration: Sendable {
    /// The server's URL, without a trailing slash and without `/v3`.
    package var base: String
    /// The server-side key; goes into one header and nowhere else.
    package var token: String
    /// How long files may take.
    package var fileTime = FileTime()
    /// The clock, for a date in `Retry-After`.
    package var clock: Clock

    /// A server at `base`; a trailing `/v3` or slash is dropped.
    package init(base: String, token: String, clock: Clock = .system) {
      var base = base
      while base.hasSuffix("/") { base.removeLast() }
      if base.hasSuffix("/v3") { base.removeLast(3) }
      self.base = base
      self.token = token
      self.clock = clock
    }
  }

  let configuration: Configuration
  private let client: any RequestSender
  private let parsers = Guarded<[Lent]>([])
  /// Whether `include_reply_type` is sent in lower case first: some servers refuse it in upper case.
  private let takesLowerCase = Guarded(false)

  /// A parser in the pool, for one task at a time.
  private struct Lent: @unchecked Sendable {  // because only the task that took it from the pool uses it
    let parser: JSONParser
  }

  /// An adapter that sends through `client`.
  package init(_ configuration: Configuration, client: any RequestSender) {
    self.configuration = configuration
    self.client = client
  }

  /// See `Upstream`.
  package func probe() async throws {
    try await get(.probe, .foreground, totalMilliseconds: 5_000) { root in
      guard root.kind == .object else { throw Unreadable(field: "users") }
    }
  }

  /// See `Upstream`. Requests an upload without a file: a server that offers uploads refuses it for the
  /// missing file.
  package func offersUploads(_ importance: Importance) async throws -> Bool {
    let request = HTTPRequest(
      .post, configuration.base + Endpoint.upload.target,
      headers: ["Api-Token: \(configuration.token)"],
      body: .json(Array("{}".utf8)), importance: importance)
    do {
      try await ask(request) { _ in }
      return true
    } catch let error as UpstreamError {
      guard error.isRefusal else { throw error }
      return error.asksForMore
    }
  }

  /// See `Upstream`.
  package func user(_ user: UserID, _ importance: Importance) async throws -> UserRecord {
    try await get(.user(user), importance) { root in
      guard let id = root["user_id"]?.string else { throw Unreadable(field: "user_id") }
      return UserRecord(
        userID: id, isActive: root["is_active"]?.tolerantBool ?? true,
        body: written { MessageReading.person(root, &$0) }, nickname: root.textIfAny("nickname"))
    }
  }

  /// See `Upstream`.
  package func channels(
    of user: UserID, order: ChannelOrder, limit: Int, after token: String?, _ importance: Importance
  ) async throws -> UpstreamPage<ChannelRecord> {
    let endpoint = Endpoint.channels(of: user, order: order, limit: limit, after: token)
    return try await get(endpoint, importance) { root in
      guard let list = root["channels"], list.kind == .array else { throw Unreadable(field: "channels") }
      let read = SendbirdUpstream.channels(list, of: endpoint)
      let next = root.text("next")
      return UpstreamPage(
        items: read.items, next: next.isEmpty ? nil : next, at: root["ts"]?.milliseconds,
        unreadable: read.unreadable, unreadableNames: read.unreadableNames.map(\.text))
    }
  }

  /// See `Upstream`.
  package func channelChanges(
    of user: UserID, since: ChangesSince, hasMembers: Bool, _ importance: Importance
  ) async throws -> UpstreamChanges<ChannelRecord, ChannelURL> {
    let endpoint = Endpoint.channelChanges(of: user, since: since, hasMembers: hasMembers)
    return try await get(endpoint, importance) { root in
      guard let list = root["updated"], list.kind == .array else { throw Unreadable(field: "updated") }
      let updated = SendbirdUpstream.channels(list, of: endpoint)
      let deleted = SendbirdUpstream.deleted(root, of: endpoint) { value in
        (value.string ?? value["channel_url"]?.string).map { ChannelURL($0) }
      }
      return SendbirdUpstream.changes(root, updated, deleted)
    }
  }

  /// See `Upstream`.
  package func channel(
    _ url: ChannelURL, as user: UserID?, _ importance: Importance
  ) async throws -> ChannelRecord {
    try await get(.channel(url, as: user), importance) {
      try ChannelReading.record($0, isOwnView: user != nil)
    }
  }

  /// See `Upstream`.
  package func isMember(
    _ user: UserID, of url: ChannelURL, _ importance: Importance
  ) async throws -> Bool {
    try await memberState(user, of: url, importance) != .outside
  }

  /// See `Upstream`.
  package func memberState(
    _ user: UserID, of url: ChannelURL, _ importance: Importance
  ) async throws -> MembershipRecord.State {
    do {
      return try await get(.member(user, of: url), importance) { root in
        guard let isMember = root["is_member"]?.tolerantBool else { throw Unreadable(field: "is_member") }
        if root.text("state") == "invited" { return .invited }
        return isMember ? .joined : .outside
      }
    } catch let error as UpstreamError where error.isNotFound {
      return .outside
    }
  }

  /// See `Upstream`.
  package func members(
    of url: ChannelURL, limit: Int, after token: String?, _ importance: Importance
  ) async throws -> UpstreamPage<MemberRecord> {
    let endpoint = Endpoint.members(of: url, limit: limit, after: token)
    return try await get(endpoint, importance) { root in
      guard let list = root["members"], list.kind == .array else { throw Unreadable(field: "members") }
      let read = ReadItems<MemberRecord, String>(list, of: endpoint, name: { $0["user_id"]?.string }) {
        guard let member = ChannelReading.member($0) else { throw Unreadable(field: "user_id") }
        return member
      }
      let next = root.text("next")
      return UpstreamPage(
        items: read.items, next: next.isEmpty ? nil : next, at: nil, unreadable: read.unreadable,
        unreadableNames: read.unreadableNames)
    }
  }

  /// See `Upstream`.
  package func messages(
    in url: ChannelURL, _ window: MessageWindow, _ importance: Importance
  ) async throws -> UpstreamPage<MessageRecord> {
    let endpoint = Endpoint.messages(in: url, window)
    return try await get(endpoint, importance) { root in
      guard let list = root["messages"], list.kind == .array else { throw Unreadable(field: "messages") }
      let read = SendbirdUpstream.messages(list, in: url, of: endpoint)
      return UpstreamPage(
        items: read.items, next: nil, at: nil, unreadable: read.unreadable,
        unreadableNames: read.unreadableNames.map { String($0) }, isEndRead: read.isEndRead,
        breaks: read.breaks)
    }
  }

  /// See `Upstream`.
  package func message(
    _ id: Int64, in url: ChannelURL, _ importance: Importance
  ) async throws -> MessageRecord {
    try await get(.message(id, in: url), importance) { try MessageReading.record($0, foundIn: url) }
  }

  /// See `Upstream`.
  package func messageChanges(
    in url: ChannelURL, since: ChangesSince, _ importance: Importance
  ) async throws -> UpstreamChanges<MessageRecord, Int64> {
    let endpoint = Endpoint.messageChanges(in: url, since: since)
    return try await get(endpoint, importance) { root in
      guard let list = root["updated"], list.kind == .array else { throw Unreadable(field: "updated") }
      let updated = SendbirdUpstream.messages(list, in: url, of: endpoint)
      let deleted = SendbirdUpstream.deleted(root, of: endpoint) {
        $0.messageID ?? $0["message_id"]?.messageID
      }
      return SendbirdUpstream.changes(root, updated, deleted)
    }
  }

  private static func channels(
    _ list: JSONValue, of endpoint: Endpoint
  ) -> ReadItems<ChannelRecord, ChannelURL> {
    ReadItems(list, of: endpoint, name: ChannelReading.url) { try ChannelReading.record($0, isOwnView: true) }
  }

  private static func messages(
    _ list: JSONValue, in url: ChannelURL, of endpoint: Endpoint
  ) -> ReadItems<MessageRecord, Int64> {
    ReadItems(list, of: endpoint, name: MessageReading.id) { try MessageReading.record($0, foundIn: url) }
  }

  /// The names in a changelog's `deleted`.
  private static func deleted<Name>(
    _ root: JSONValue, of endpoint: Endpoint, _ name: (JSONValue) -> Name?
  ) -> ReadItems<Name, Name> {
    guard let list = root["deleted"] else { return ReadItems() }
    return ReadItems(list, of: endpoint, name: { _ in nil }) { value in
      guard let name = name(value) else { throw Unreadable(field: "deleted") }
      return name
    }
  }

  private static func changes<Item, Name>(
    _ root: JSONValue, _ updated: ReadItems<Item, Name>, _ deleted: ReadItems<Name, Name>
  ) -> UpstreamChanges<Item, Name> {
    let next = root.text("next")
    return UpstreamChanges(
      updated: updated.items, deleted: deleted.items, hasMore: root.flag("has_more"),
      next: next.isEmpty ? nil : SyncToken(next), unreadable: updated.unreadable + deleted.unreadable,
      unreadableNames: updated.unreadableNames)
  }

  /// Requests with the words that the vendor documents or, if the server refuses these, in lower case.
  /// Remembers which ones the server takes.
  private func get<Result>(
    _ endpoint: Endpoint, _ importance: Importance, totalMilliseconds: Int? = nil,
    _ read: (JSONValue) throws -> Result
  ) async throws -> Result {
    let lower = endpoint.inLowerCase
    guard lower != endpoint else { return try await ask(endpoint, importance, totalMilliseconds, read) }
    let isLower = takesLowerCase.withLock { $0 }
    do {
      return try await ask(isLower ? lower : endpoint, importance, totalMilliseconds, read)
    } catch let error as UpstreamError where error.deniesWord {
      let result: Result
      do {
        result = try await ask(isLower ? endpoint : lower, importance, totalMilliseconds, read)
      } catch is UpstreamError {
        throw error
      }
      takesLowerCase.withLock { $0 = !isLower }
      return result
    }
  }

  private func ask<Result>(
    _ endpoint: Endpoint, _ importance: Importance, _ totalMilliseconds: Int?,
    _ read: (JSONValue) throws -> Result
  ) async throws -> Result {
    // The code with which the server says that nothing has this id: nothing can have such an id.
    guard endpoint.isAskable else {
      throw UpstreamError.rejection(code: 400201, message: "an id is empty, . or ..")
    }
    let request = HTTPRequest(
      .get, configuration.base + endpoint.target, headers: ["Api-Token: \(configuration.token)"],
      importance: importance, totalMilliseconds: totalMilliseconds)
    do {
      return try await ask(request, read)
    } catch let error as UpstreamError {
      if error.isUnreadable {
        Log.line(
          .warning, "upstream_answer_unreadable",
          ["endpoint": .text(endpoint.path), "reason": .text(error.description)])
      }
      throw error
    }
  }

  func ask<Result>(_ request: HTTPRequest, _ read: (JSONValue) throws -> Result) async throws
    -> Result
  {
    var request = request
    let path = request.url.dropFirst(configuration.base.utf8.count).prefix { $0 != "?" }
    request.endpoint = Endpoint.kind(request.method, String(path))
    let response = try await exchange(request)
    let lent = parsers.withLock { $0.popLast() } ?? Lent(parser: JSONParser())
    defer { parsers.withLock { $0.append(lent) } }
    let now = configuration.clock.wallMilliseconds()
    // The headers say that this request was the last one allowed. The next would be refused, so calls of this
    // kind pause.
    if let wait = Envelope.spent(response.headers, now: now) {
      client.pause(request.endpoint, milliseconds: wait)
    }
    do {
      return try Envelope.open(response, lent.parser, now: now, read)
    } catch {
      if case .rateLimited(let milliseconds) = error {
        client.pause(request.endpoint, milliseconds: milliseconds)
      }
      throw error
    }
  }

  private func exchange(_ request: HTTPRequest) async throws -> HTTPResponse {
    do {
      return try await client.send(request)
    } catch let error as TransportFailure {
      switch error.kind {
      case .canceled, .closed: throw UpstreamError.canceled
      case .crowded: throw UpstreamError.rateLimited(milliseconds: 1_000)
      case .paused: throw UpstreamError.rateLimited(milliseconds: error.retryAfter ?? 1_000)
      case .tooLarge: throw UpstreamError.unreadable(reason: error.reason)
      case .untrusted: throw UpstreamError.untrusted(reason: error.reason)
      default: throw UpstreamError.unreachable(reason: error.reason, mayHaveArrived: error.mayHaveArrived)
      }
    }
  }
}
