import ChatAPI
import ChatCache
import ChatModel
import Glibc
import Platform

extension Command {
  /// `perch sync`
  static let sync = Command(
    name: "sync", summary: "fetches a user's channels and messages into the cache, with a line of progress",
    settings: [
      Setting("data", .path, default: "data", "the directory of the cache; made when missing"),
      Setting("user", .text, default: nil, "the user whose channels are fetched"),
      Setting(
        "once", .flag, default: "off", "ends when all is fetched; otherwise polls until a signal"),
      Setting(
        "log-level", .choice(["debug", "info", "warning", "error"]), default: "warning", "what is logged"),
    ] + SyncParts.settings
  ) { values in
    if let level = Log.Level(rawValue: values.text("log-level")) { Log.setLevel(level) }
    Signals.block()
    try DataDirectory.prepare(values.text("data"))
    let user = UserID(values.text("user"))
    let cache: Cache
    do {
      cache = try Cache(
        Cache.Configuration(directory: values.text("data"), upstream: SyncParts.binding(values)))
    } catch CacheError.lockedBy {
      let service = try RunningService(
        dataDirectory: values.text("data"), isOnce: values.text("once") == "on")
      return try service.sync(user)
    } catch let error as CacheError {
      throw CommandFailure(description: error.description)
    }
    return try OwnSync(values, cache, user).run()
  }
}

/// Syncs in the command itself, because no service owns the data directory.
private struct OwnSync {
  private let values: SettingValues
  private let cache: Cache
  private let user: UserID
  private let parts: SyncParts

  init(_ values: SettingValues, _ cache: Cache, _ user: UserID) throws {
    guard !values.text("upstream").isEmpty else {
      throw SettingError(
        description: "--upstream (or PERCH_UPSTREAM) is needed: the chat server to sync with")
    }
    self.values = values
    self.cache = cache
    self.user = user
    parts = try SyncParts(values, over: cache)
  }

  private var isOnce: Bool { values.text("once") == "on" }

  func run() throws -> Int32 {
    defer {
      parts.stop()
      cache.close()
    }
    try parts.start()
    let outcome = Watched<Result<UserConnection, SyncError>?>(nil)
    parts.syncRequests.connect(user, within: 30_000) { result in outcome.update { $0 = result } }
    switch outcome.wait({ $0 }) {
    case .failure(let error)?: throw CommandFailure(description: SyncProgress.words(error, user))
    case .success(let connection)? where isOnce && connection.state == .offline:
      // The user is known from before, but `--once` does not wait for a chat server that is away.
      if let error = connection.error { throw CommandFailure(description: SyncProgress.words(error, user)) }
    default: break
    }
    var progress = SyncProgress()
    while true {
      // Asks for the user again and again: the worker stops syncing users that nobody asks for (B4).
      _ = parts.syncRequests.seen(user)
      let connection = parts.syncRequests.connection(of: user)
      let messages = try cache.read { try $0.storedMessages() }
      progress.show(connection, messages: messages, requests: parts.client?.requestsStarted ?? 0)
      if case .userUnknown? = connection.error {
        throw CommandFailure(description: SyncProgress.words(.userUnknown, user))
      }
      if connection.progress.phase == .steady && connection.state == .online { break }
      if Signals.arrives(withinMilliseconds: 250) {
        progress.end("stopped")
        return 1
      }
    }
    progress.end("synced")
    if isOnce { return 0 }
    while !Signals.arrives(withinMilliseconds: 60_000) { _ = parts.syncRequests.seen(user) }
    return 0
  }
}
