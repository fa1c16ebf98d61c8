import ChatAPI
import ChatCache
import ChatCollections
import ChatModel
import Glibc
import MicroHTTP
import Platform
import Synchronization

/// The service itself over a cache without an upstream: every route, tokens, the access log, a live tail.
/// `Benchmarks serve-feed PORT USERS FILE [CHANNELS [MESSAGES]]`, and `serve-lists` with the same words.
///
/// Each of CHANNELS (1 by default) holds MESSAGES (1000 by default). Each user has one open view of the first
/// channel, or with `serve-lists` is in all channels and has one open list of them. FILE tells the load
/// program how to follow the views: a line "@cursor", then for each user the poll's path and the header with
/// its token. `POST /pub/x` stores one message in the first channel, as if it had come from upstream.
enum FeedServer {
  /// The kind of view that the server opens for each user.
  enum Views { case messages, lists }

  private static let secret = "0123456789abcdef0123456789abcdef"

  static func run(_ words: [String], _ views: Views = .messages) -> Int32 {
    guard 3...5 ~= words.count, let port = UInt16(words[0]), let users = Int(words[1]),
      let channels = words.count > 3 ? Int(words[3]) : 1, let stored = words.count > 4 ? Int(words[4]) : 1000
    else { return 2 }
    let end = EndSignal()
    do {
      let filled = try FilledCache.interleaved(channels: channels, messages: stored)
      try filled.admit((0..<users).map(user), to: views == .lists ? channels : 1, stored: stored)
      var settings = Collections.Settings()
      settings.parkedPerUser = settings.parked
      let collections = Collections(cache: filled.cache, syncRequests: LiveSync(), settings: settings)
      try collections.start()
      let opened = try (0..<users).map { number in
        switch views {
        case .messages: try openMessages(of: user(number), collections)
        case .lists: try openChannels(of: user(number), collections)
        }
      }
      try write(words[2], opened, at: collections.cache.cursor)
      let gate = Gate(.tokens(Keyring(try SigningSecrets(secret))))
      let server = try server(port, filled, collections, gate, stored: stored)
      end.wait()
      server.shutDown(withinSeconds: 5)
      collections.stop()
      return 0
    } catch {
      print("\(error)")
      return 1
    }
  }

  private static func user(_ number: Int) -> UserID { UserID("user-\(number)") }

  /// The value of a user's header `Authorization`.
  static func authorization(_ user: UserID) throws -> String {
    let expires = Clock.system.wallMilliseconds() / 1000 + 3600
    let token = BearerToken(user: user.text, scopes: .chat, expires: expires)
    return "Bearer \(token.signed(with: try SigningSecrets(secret)))"
  }

  private static func server(
    _ port: UInt16, _ filled: FilledCache, _ collections: Collections, _ gate: Gate, stored: Int
  ) throws -> Server {
    var configuration = Configuration(listen: ListenAddress(host: "127.0.0.1", port: port))
    configuration.accessLog = open("/dev/null", O_WRONLY | O_CLOEXEC)
    let server = try Server(configuration)
    let parts = RouteParts(
      status: ServiceStatus(), metrics: Metrics([]), cache: filled.cache,
      syncRequests: collections.syncRequests,
      gate: gate, webhookSignature: nil, collections: collections)
    let next = Atomic<Int>(stored)
    let publish = Route(.post, "/pub/{name}", operation: "publish", body: .collected(limit: 65_536)) { _ in
      let number = next.wrappingAdd(1, ordering: .relaxed).oldValue
      try filled.cache.blocking.write {
        try $0.store(FilledCache.message(number), in: FilledCache.url(0), .messageReceived)
      }
      return .respond(.empty(204))
    }
    try server.start(Routes.all(parts) + [publish])
    return server
  }

  /// A view's path. Called with the cursor at which the view's client begins.
  private typealias Begin = (EventCursor) throws -> String

  private static func openMessages(of user: UserID, _ collections: Collections) throws -> Begin {
    var request = MessageViewRequest(channelURL: FilledCache.url(0).text)
    request.previousSize = 30
    let view = try opened { then in
      try collections.openMessages(request, of: user, named: Collections.name(), then: then)
    }
    return { cursor in
      // With this snapshot the view knows that its client has the present state.
      let viewContext = collections.viewContext(FilledCache.url(0))
      _ = try collections.cache.read { try view.snapshot($0, viewContext, at: cursor).count }
      return "/v1/message-collections/\(view.id)"
    }
  }

  private static func openChannels(of user: UserID, _ collections: Collections) throws -> Begin {
    let view = try opened { try collections.openChannels(ChannelQuery(), of: user, then: $0) }
    return { cursor in
      _ = try collections.cache.read { try view.snapshot($0, at: cursor).count }
      return "/v1/channel-collections/\(view.id)"
    }
  }

  private static func opened<View: Sendable>(
    _ open: (@escaping Collections.Opened<View>) throws -> Void
  ) throws -> View {
    let opened = Watched<Result<View, any Error>?>(nil)
    try open { result in opened.update { $0 = result } }
    return try opened.wait { $0 }!.get()
  }

  private static func write(_ path: String, _ views: [Begin], at cursor: EventCursor) throws {
    var lines = "@\(cursor)\n"
    for (number, view) in views.enumerated() {
      lines +=
        "\(try view(cursor))/events?since={}&wait=30\tAuthorization: \(try authorization(user(number)))\n"
    }
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    defer { close(file) }
    guard Glibc.write(file, lines, lines.utf8.count) == lines.utf8.count else {
      throw BenchFailure(description: "cannot write \(path)")
    }
  }
}

/// The link is online and the tail is live, so that no request goes upstream.
private struct LiveSync: SyncRequests {
  var link: LinkStatus { LinkStatus(.online, generation: 1) }
  func pollInterval(of channel: ChannelURL) -> Int64 { 3_600_000 }
  func connection(of user: UserID) -> UserConnection { UserConnection(user, .online, isSynced: true) }
  func seen(_ user: UserID) -> Admission { .admitted }
  func admit(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, SyncError>) -> Void
  ) { then(.success(connection(of: user))) }
  func connect(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, SyncError>) -> Void
  ) { then(.success(connection(of: user))) }
  func disconnect(_ user: UserID, then: @escaping @Sendable (Result<Void, SyncError>) -> Void) {
    then(.success(()))
  }
  func forget(
    _ user: UserID, isForced: Bool, then: @escaping @Sendable (Result<Int64, SyncError>) -> Void
  ) { then(.success(0)) }
  func accepted(of user: UserID, in channel: ChannelURL) {}
  func fetch(
    _ wanted: MessageSyncRequest, for user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (SyncOutcome) -> Void
  ) { then(.stored) }
  func awaitChanges(of user: UserID, within milliseconds: Int, then: @escaping @Sendable () -> Void) {
    then()
  }
  func fetchChannels(
    of user: UserID, within milliseconds: Int, then: @escaping @Sendable (SyncOutcome) -> Void
  ) { then(.stored) }
  func fetchMembers(
    of channels: [ChannelURL], for user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (SyncOutcome) -> Void
  ) { then(.stored) }
  func find(
    _ channel: ChannelURL, as user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<Bool, SyncError>) -> Void
  ) { then(.success(false)) }
  func fill(gap: Int64, in channel: ChannelURL) {}
  func stopFilling(gap: Int64, in channel: ChannelURL) {}
  func opened(_ view: OpenView, isOwedAnswer: Bool) {}
  func moved(_ view: OpenView) {}
  func closed(view id: String, in channel: ChannelURL) {}
  func healed() {}
  func takeWebhook(_ webhook: [UInt8], then: @escaping @Sendable (Result<Int, SyncError>) -> Void) {
    then(.success(0))
  }
}
