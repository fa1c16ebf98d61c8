import ChatAPI
import ChatCache
import ChatModel
import ChatSync
import Platform

/// The sync worker and its parts, composed from the settings.
///
/// The worker stops after the server, when no more requests come, and before the cache is closed, so that
/// answers of the upstream can still be stored.
struct SyncParts {
  /// The worker.
  let worker: SyncWorker
  /// The worker's port for the routes.
  let syncRequests: WorkerRequests
  /// The HTTP client to the upstream; nil without an upstream.
  let client: HTTPClient?
  /// The operator's choices about sending.
  let outboxPolicy: OutboxPolicy

  init(_ values: SettingValues, over cache: Cache) throws {
    let base = values.text("upstream")
    var upstream: any Upstream = NoUpstream()
    client = base.isEmpty ? nil : HTTPClient(SyncParts.limits(values))
    if let client {
      guard base.hasPrefix("http://") || base.hasPrefix("https://") else {
        throw SettingError(description: "--upstream: \(base) does not begin with http:// or https://")
      }
      upstream = SendbirdUpstream(
        SendbirdUpstream.Configuration(base: base, token: values.text("upstream-token")), client: client)
    }
    let pace = SyncParts.pace(values)
    outboxPolicy = SyncParts.outboxPolicy(values)
    worker = SyncWorker(
      upstream: upstream, store: CacheStore(cache, prefetchMessages: pace.prefetchMessages), pace: pace,
      outboxPolicy: outboxPolicy, clock: cache.clock, seed: .random(in: 0 ... .max))
    syncRequests = WorkerRequests(worker)
  }

  /// The settings of all commands that sync.
  static let settings = linkSettings + sendingSettings

  /// The settings of the link and of what is fetched.
  private static let linkSettings: [Setting] = [
    Setting(
      "upstream", .text, default: "", "the chat server, such as https://api-APP.sendbird.com; none when empty"
    ),
    Setting("upstream-token", .secret, default: "", "the API token of the chat server"),
    Setting("upstream-in-flight", .number(1...64), default: "4", "requests to the chat server at once"),
    Setting(
      "upstream-rate", .number(0...10_000), default: "0",
      "most requests per second to the chat server, at most half for open channels; 0: no limit, for these 5"
    ),
    Setting(
      "poll-interval", .duration, default: "2s", "time between two polls of a channel that a client has open"
    ),
    Setting(
      "idle-poll-interval", .duration, default: "0",
      "time between two polls of a user's channels; 0: 30s, or 4 poll intervals of less than 2s"),
    Setting("backoff-max", .duration, default: "60s", "the longest wait after failures of the upstream"),
    Setting(
      "prefetch-messages", .number(0...100_000), default: "200",
      "how many of each channel's newest messages are fetched before a client asks"),
    Setting(
      "prefetch-rate", .number(0...10_000), default: "5", "requests per second that fetch ahead; 0: no limit"
    ),
  ]

  /// The settings of sending.
  private static let sendingSettings: [Setting] = [
    Setting("pending-lifetime", .duration, default: "72h", "how long a message may wait before it fails"),
    Setting(
      "uncertain-grace", .duration, default: "30s",
      "time between two searches for a message that may have arrived"),
    Setting(
      "upstream-deduplicates", .choice(["yes", "no", "unknown"]), default: "unknown",
      "whether the chat server answers a repeated request id with the first message; unknown counts as no"),
    Setting(
      "max-unsent", .number(1...1_000_000), default: "10000", "unsent messages and changes of one user"),
  ]

  private static func outboxPolicy(_ values: SettingValues) -> OutboxPolicy {
    var policy = OutboxPolicy()
    policy.backoffMaximum = Int64(max(values.number("backoff-max"), 100))
    policy.pendingLifetime = Int64(max(values.number("pending-lifetime"), 1000))
    policy.uncertainGrace = Int64(values.number("uncertain-grace"))
    policy.deduplicates = values.text("upstream-deduplicates") == "yes"
    policy.maximumUnsent = values.number("max-unsent")
    return policy
  }

  private static func limits(_ values: SettingValues) -> HTTPClient.Configuration {
    var limits = HTTPClient.Configuration()
    limits.inFlight = values.number("upstream-in-flight")
    limits.rate = Double(values.number("upstream-rate"))
    // Requests that one second leaves unused may be sent in the next.
    limits.burst = max(1, limits.rate)
    return limits
  }

  private static func pace(_ values: SettingValues) -> Pace {
    var pace = Pace()
    let poll = Int64(max(values.number("poll-interval"), 100))
    let idle = Int64(values.number("idle-poll-interval"))
    pace.openPoll = poll
    pace.userPoll = idle > 0 ? max(idle, 100) : poll < 2_000 ? 4 * poll : 30_000
    pace.openPollWithWebhooks = max(poll, pace.userPoll)
    pace.maximumBackoff = Int64(max(values.number("backoff-max"), 100))
    pace.jobs = values.number("upstream-in-flight")
    let rate = values.number("upstream-rate")
    if rate > 0 { (pace.requestsPerSecond, pace.isRateKnown) = (Double(rate), true) }
    pace.prefetchMessages = values.number("prefetch-messages")
    pace.prefetchRate = Double(values.number("prefetch-rate"))
    return pace
  }

  /// The url that a data directory is bound to; nil without an upstream (B65).
  static func binding(_ values: SettingValues) -> String? {
    let base = values.text("upstream")
    return base.isEmpty ? nil : SendbirdUpstream.Configuration(base: base, token: "").base
  }

  /// The key of webhooks' signatures: the configured secret or, without one, the upstream's API token.
  static func signature(_ values: SettingValues) -> WebhookSignature? {
    let own = values.text("webhook-secret")
    return own.isEmpty
      ? WebhookSignature(secret: values.text("upstream-token"), isGuessed: true)
      : WebhookSignature(secret: own)
  }

  /// Writes the link's state and its requests, for `/metrics`.
  func write(to text: inout MetricsText) {
    text.metric(
      "perch_upstream_requests_total", .counter, "Requests sent to the chat server.",
      Int64(client?.requestsStarted ?? 0))
    text.metric(
      "perch_upstream_pauses_total", .counter,
      "Pauses that the chat server asked for: 429, or no request left.", Int64(client?.pausesAsked ?? 0))
    text.metric(
      "perch_upstream_online", .gauge, "1 while the chat server is online, else 0.",
      syncRequests.link.state == .online ? 1 : 0)
    text.metric(
      "perch_upstream_generation", .gauge, "The link's generation: rises at each start and each loss.",
      syncRequests.link.generation)
    let counts = worker.sendingCounts
    text.begin("perch_sending_requests_total", .counter, "Requests that sent or searched, by outcome.")
    for end in SendingCounts.End.allCases {
      text.sample("perch_sending_requests_total", label: "end=\"\(end.rawValue)\"", counts[end])
    }
    text.metric(
      "perch_sending_looks_total", .counter, "Listings that searched for a message that may have arrived.",
      counts.looks)
    let uploads = counts.uploads
    text.begin("perch_uploads_total", .counter, "Uploads to the chat server, by outcome.")
    text.sample("perch_uploads_total", label: "end=\"done\"", uploads.done)
    text.sample("perch_uploads_total", label: "end=\"refused\"", uploads.refused)
    text.sample("perch_uploads_total", label: "end=\"interrupted\"", uploads.interrupted)
  }

  /// Writes the counts of unsent rows, for `/metrics`; nothing if the cache cannot be read.
  static func write(unsentIn cache: Cache, to text: inout MetricsText) {
    // `try?`: other metrics and the log tell of a cache that cannot be read; this page is answered without
    // it.
    guard let unsent = try? cache.read({ try $0.unsentOfAllUsers() }) else { return }
    let spool = cache.spool.contents
    text.metric(
      "perch_spool_bytes", .gauge, "Bytes of unsent files, including arriving ones.", Int64(spool.bytes))
    text.metric("perch_spool_files", .gauge, "Files of unsent messages.", Int64(spool.files))
    text.metric("perch_uploads_running", .gauge, "Files that are being uploaded.", unsent.uploading)
    text.begin("perch_outbox_rows", .gauge, "Unsent messages and changes of all users.")
    text.sample("perch_outbox_rows", label: "status=\"pending\"", unsent.pending)
    text.sample("perch_outbox_rows", label: "status=\"failed\"", unsent.failed)
    text.sample("perch_outbox_rows", label: "status=\"canceled\"", unsent.canceled)
    let now = Clock.system.wallMilliseconds()
    text.metric(
      "perch_outbox_oldest_seconds", .gauge, "Age of the pending row that expires first, in seconds.",
      unsent.oldest.map { max(0, now - $0) / 1000 } ?? 0)
  }

  /// Starts the worker and waits until it has read its state from the cache.
  func start() throws {
    let worker = worker
    try Waiting.on { try await worker.start() }
  }

  /// Ends every job, then the connections.
  func stop() {
    let worker = worker
    do { try Waiting.on { await worker.stop() } } catch {
      Log.line(.error, "sync_stop_failed", ["reason": .text("\(error)")])
    }
    client?.close()
  }
}

/// Blocks a thread until an async function returns. Only commands use it, on their main thread.
enum Waiting {
  static func on<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) throws -> Result {
    let outcome = Watched<Swift.Result<Result, any Error>?>(nil)
    Task(priority: .medium) {
      do {
        let value = try await body()
        outcome.update { $0 = .success(value) }
      } catch {
        outcome.update { $0 = .failure(error) }
      }
    }
    guard let result = outcome.wait({ $0 }) else { throw CancellationError() }
    return try result.get()
  }
}
