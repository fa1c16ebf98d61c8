import ChatCache
import ChatModel
import JSON
import Platform

/// The adapter for servers that speak the Sendbird Platform API.
package final class SendbirdUpstream: Upstream {
  /// Where the server is and what opens it.
  package struct Configuration: Sendable {
    /// Without a trailing slash and without `/v3`.
    package var base: String
    /// The server-side key; goes into one header and nowhere else.
    package var token: String
    /// For `Retry-After` given as a moment.
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
  private let client: HTTPClient
  private let parsers = Guarded<[Lent]>([])

  /// A parser on its way between tasks.
  private struct Lent: @unchecked Sendable {  // because only the task that took it from the pool uses it
    let parser: JSONParser
  }

  /// An adapter that sends through `client`.
  package init(_ configuration: Configuration, client: HTTPClient) {
    self.configuration = configuration
    self.client = client
  }

  /// See `Upstream`.
  package func probe() async throws {
    try await get(.probe, .foreground, totalMilliseconds: 5_000) { _ in }
  }

  /// See `Upstream`. An upload without a file is refused either way: for the missing file where uploads are
  /// offered.
  package func offersUploads(_ importance: Importance) async throws -> Bool {
    let request = HTTPRequest(
      .post, configuration.base + Endpoint.upload.target,
      headers: ["Api-Token: \(configuration.token)"],
      body: .json(Array("{}".utf8)), importance: importance)
    do {
      try await ask(request) { _ in }
      return true
    } catch let error as UpstreamError {
      guard case .rejection = error else { throw error }
      return !error.deniesCapability
    }
  }

  /// See `Upstream`.
  package func user(_ user: UserID, _ importance: Importance) async throws -> UserRecord {
    try await get(.user(user), importance) { root in
      guard let id = root["user_id"]?.string else { throw Unreadable(what: "user_id") }
      return UserRecord(
        userID: id, isActive: root["is_active"]?.tolerantBool ?? true,
        body: written { MessageReading.person(root, &$0) })
    }
  }

  /// See `Upstream`.
  package func channels(
    of user: UserID, order: ChannelOrder, limit: Int, after token: String?, _ importance: Importance
  ) async throws -> UpstreamPage<ChannelRecord> {
    try await get(.channels(of: user, order: order, limit: limit, after: token), importance) { root in
      guard let list = root["channels"], list.kind == .array else { throw Unreadable(what: "channels") }
      let (items, bad) = SendbirdUpstream.each(list) { try ChannelReading.record($0, isOwnView: true) }
      let next = root.text("next")
      return UpstreamPage(
        items: items, next: next.isEmpty ? nil : next, at: root["ts"]?.milliseconds, unreadable: bad)
    }
  }

  /// See `Upstream`.
  package func channelChanges(
    of user: UserID, since: ChangesSince, _ importance: Importance
  ) async throws -> UpstreamChanges<ChannelRecord, ChannelURL> {
    try await get(.channelChanges(of: user, since: since), importance) { root in
      guard let list = root["updated"], list.kind == .array else { throw Unreadable(what: "updated") }
      let (updated, bad) = SendbirdUpstream.each(list) { try ChannelReading.record($0, isOwnView: true) }
      let deleted = (root["deleted"]?.items ?? .none).compactMap { value in
        (value.string ?? value["channel_url"]?.string).map { ChannelURL($0) }
      }
      return SendbirdUpstream.changes(root, updated, deleted, bad)
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
    do {
      return try await get(.member(user, of: url), importance) { root in
        guard let isMember = root["is_member"]?.tolerantBool else { throw Unreadable(what: "is_member") }
        return isMember || root.text("state") == "invited"
      }
    } catch let error as UpstreamError where error.isNotFound {
      return false
    }
  }

  /// See `Upstream`.
  package func messages(
    in url: ChannelURL, _ window: MessageWindow, _ importance: Importance
  ) async throws -> UpstreamPage<MessageRecord> {
    try await get(.messages(in: url, window), importance) { root in
      guard let list = root["messages"], list.kind == .array else { throw Unreadable(what: "messages") }
      let (items, bad) = SendbirdUpstream.each(list) { try MessageReading.record($0, in: url) }
      return UpstreamPage(items: items, next: nil, at: nil, unreadable: bad)
    }
  }

  /// See `Upstream`.
  package func message(
    _ id: Int64, in url: ChannelURL, _ importance: Importance
  ) async throws -> MessageRecord {
    try await get(.message(id, in: url), importance) { try MessageReading.record($0, in: url) }
  }

  /// See `Upstream`.
  package func messageChanges(
    in url: ChannelURL, since: ChangesSince, _ importance: Importance
  ) async throws -> UpstreamChanges<MessageRecord, Int64> {
    try await get(.messageChanges(in: url, since: since), importance) { root in
      guard let list = root["updated"], list.kind == .array else { throw Unreadable(what: "updated") }
      let (updated, bad) = SendbirdUpstream.each(list) { try MessageReading.record($0, in: url) }
      let deleted = (root["deleted"]?.items ?? .none).compactMap {
        $0.tolerantInt ?? $0["message_id"]?.tolerantInt
      }
      return SendbirdUpstream.changes(root, updated, deleted, bad)
    }
  }

  private static func changes<Item, Deleted>(
    _ root: JSONValue, _ updated: [Item], _ deleted: [Deleted], _ bad: Int
  ) -> UpstreamChanges<Item, Deleted> {
    let next = root.text("next")
    return UpstreamChanges(
      updated: updated, deleted: deleted, hasMore: root.flag("has_more"),
      next: next.isEmpty ? nil : SyncToken(next),
      unreadable: bad)
  }

  /// What could be read of a list, and how many items could not.
  private static func each<Item>(_ list: JSONValue, _ read: (JSONValue) throws -> Item) -> (
    items: [Item], bad: Int
  ) {
    var items: [Item] = []
    var bad = 0
    for value in list.items {
      do { items.append(try read(value)) } catch {
        bad += 1
        Log.line(.warning, "upstream_item_unreadable", ["reason": .text("\(error)")])
      }
    }
    return (items, bad)
  }

  private func get<Result>(
    _ endpoint: Endpoint, _ importance: Importance, totalMilliseconds: Int? = nil,
    _ read: (JSONValue) throws -> Result
  ) async throws -> Result {
    let request = HTTPRequest(
      .get, configuration.base + endpoint.target, headers: ["Api-Token: \(configuration.token)"],
      importance: importance, totalMilliseconds: totalMilliseconds)
    return try await ask(request, read)
  }

  func ask<Result>(_ request: HTTPRequest, _ read: (JSONValue) throws -> Result) async throws
    -> Result
  {
    let response = try await exchange(request)
    let lent = parsers.withLock { $0.popLast() } ?? Lent(parser: JSONParser())
    defer { parsers.withLock { $0.append(lent) } }
    do {
      return try Envelope.open(response, lent.parser, now: configuration.clock.wallMilliseconds(), read)
    } catch {
      if case .rateLimited(let milliseconds) = error {
        client.pause(milliseconds: milliseconds)
      }
      throw error
    }
  }

  private func exchange(_ request: HTTPRequest) async throws -> HTTPResponse {
    do throws(TransportFailure) {
      return try await client.send(request)
    } catch {
      switch error.kind {
      case .canceled, .closed: throw UpstreamError.canceled
      case .crowded: throw UpstreamError.rateLimited(milliseconds: 1_000)
      case .tooLarge: throw UpstreamError.unusable(reason: error.reason)
      case .untrusted: throw UpstreamError.untrusted(reason: error.reason)
      default: throw UpstreamError.unreachable(reason: error.reason, mayHaveArrived: error.mayHaveArrived)
      }
    }
  }
}
