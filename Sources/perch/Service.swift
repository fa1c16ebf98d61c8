import ChatAPI
import ChatCache
import ChatCollections
import Glibc
import MicroHTTP
import Platform

/// `perch serve`, composed: the only type that knows every part of the service.
///
/// Order matters at both ends. Signals are blocked before any thread starts, so that only `Signals.wait` gets
/// them. Stopping turns readiness to 503 first, then answers parked requests and lets running ones end,
/// within a bound.
struct Service {
  private let values: SettingValues
  private let status = ServiceStatus()

  /// A service with these settings.
  init(_ values: SettingValues) throws {
    self.values = values
    let hasCertificate = !values.text("tls-certificate").isEmpty
    guard hasCertificate == !values.text("tls-key").isEmpty else {
      throw SettingError(description: "--tls-certificate and --tls-key come together")
    }
    try AccessParts.check(values)
  }

  /// Serves until a signal says to stop; the exit code.
  ///
  /// `isListening` is called with the service's url once it answers.
  func run(
    demoRoutes: [Route] = DemoRoutes.absent, isListening: (String) -> Void = { _ in }
  ) throws -> Int32 {
    if let level = Log.Level(rawValue: values.text("log-level")) { Log.setLevel(level) }
    Signals.block()
    try DataDirectory.prepare(values.text("data"))
    let ownership = try owned(values.text("data"))
    // A service that was killed left its address, whose port may be another program's by now.
    let address = AddressFile(values.text("data"))
    address.remove()
    let access = try AccessParts(values)
    let descriptors = try DescriptorPlan.make(wanted)
    let listeners: Listeners
    do throws(ServerError) {
      listeners = try Listeners(
        configuration(descriptors), admin: values.optionalAddress("admin-listen"),
        adminConnections: descriptors.adminConnections)
      try listeners.start(Routes.starting(status), otherwise: Routes.notYet)
    } catch {
      throw CommandFailure(description: error.detail)
    }
    // If the start fails from here on, no request may still run when the parts that answer it are released.
    defer { listeners.shutDown(withinSeconds: 0) }
    let isTold = Guarded(false)
    let tellURL = { @Sendable in
      let isFirst = isTold.withLock { told in
        defer { told = true }
        return !told
      }
      if isFirst {
        CommandLineCall.write(
          listeners.lines, to: STDOUT_FILENO, waitingAtMost: CommandLineCall.readerMilliseconds)
      }
    }
    let cache = try openCache(ownership, isMigrating: tellURL)
    let sync = try SyncParts(values, over: cache)
    let collections = Collections(
      cache: cache, syncRequests: sync.syncRequests, settings: settings(descriptors))
    try sync.start()
    try collections.start()
    // Clients are served only now: earlier, the collections would not know their views, nor the worker its
    // users.
    listeners.serve(
      parts(listeners.main, cache, sync, access.gate, collections), and: demoRoutes, guarded: access.guarded)
    status.becomeReady()
    try address.write(listeners.url)
    tellURL()
    isListening(listeners.url)

    let signal = Signals.wait {
      access.reread()
      rereadLimit(of: cache)
    }
    Log.line(.info, "stopping", ["signal": .number(Int64(signal))])
    status.beginStopping()
    listeners.shutDown(withinSeconds: Double(values.number("stop-within")) / 1000)
    address.remove()
    collections.stop()
    sync.stop()
    cache.close()
    Log.line(.info, "stopped")
    return 0
  }

  private var wanted: DescriptorPlan.Wanted {
    DescriptorPlan.Wanted(
      workers: values.number("workers"), upstreamRequests: values.number("upstream-in-flight"),
      connections: values.number("max-connections"), parked: values.number("max-parked"),
      parkedPerUser: values.number("max-parked-per-user"),
      adminConnections: values.optionalAddress("admin-listen") == nil ? 0 : Listeners.adminConnections)
  }

  private func settings(_ descriptors: DescriptorPlan) -> Collections.Settings {
    var settings = Collections.Settings()
    settings.idleMilliseconds = Int64(values.number("collection-idle"))
    settings.parked = descriptors.parked
    settings.parkedPerUser = descriptors.parkedPerUser
    return settings
  }

  /// The data directory, which from here on is this process's alone (B65).
  private func owned(_ directory: String) throws -> Cache.Ownership {
    do { return try Cache.Ownership(of: directory) } catch let error as CacheError {
      throw CommandFailure(description: error.description)
    }
  }

  /// Opens the cache. A migration of an older one can take long: `isMigrating` is called before it begins,
  /// and readiness tells its progress (B63).
  private func openCache(_ ownership: Cache.Ownership, isMigrating: @Sendable () -> Void) throws -> Cache {
    var configuration = Cache.Configuration(
      directory: values.text("data"), upstream: SyncParts.binding(values))
    // A steady clock: nothing is done early or late because somebody sets the machine's clock.
    configuration.clock = Clock.system.steady()
    configuration.retention.events = Int64(values.number("keep-events"))
    configuration.retention.eventMilliseconds = Int64(values.number("keep-events-for"))
    configuration.limit = Service.limit(values)
    configuration.spoolBytes = values.number("spool-max-size")
    do {
      return try Cache(configuration, ownership: ownership) { [status] progress in
        guard progress.from > 0 else { return }
        status.migrates(progress)
        isMigrating()
      }
    } catch let error as CacheError {
      throw CommandFailure(description: error.description)
    }
  }

  /// The cache's limit and eviction order from the settings. What cannot be granted is logged.
  private static func limit(_ values: SettingValues) -> CacheLimit {
    let limit = CacheLimit(
      bytes: Int64(values.number("cache-max-size")), order: values.text("cache-clear-order"))
    for warning in limit.warnings { Log.line(.warning, "cache_limit", ["reason": .text(warning)]) }
    return limit
  }

  /// Reads the cache's limit and order again. If that fails, keeps the old ones and logs why.
  private func rereadLimit(of cache: Cache) {
    do {
      let limit = Service.limit(try values.again())
      guard limit != cache.limit else { return }
      cache.setLimit(limit)
      Log.line(.info, "cache_limit_reread", ["max_bytes": .number(limit.bytes)])
    } catch {
      Log.line(.error, "cache_limit_not_reread", ["reason": .text("\(error)")])
    }
  }

  private func configuration(_ descriptors: DescriptorPlan) -> Configuration {
    var configuration = Configuration(listen: values.address("listen"))
    configuration.workers = values.number("workers")
    configuration.limits.connections = descriptors.connections
    configuration.crossOrigin.origins = values.list("cors-origins")
    configuration.uploadDirectory = values.text("data")
    configuration.distrustsLibrary = values.text("http-library") == "unknown"
    configuration.accessLog = values.text("access-log") == "on" ? STDERR_FILENO : nil
    if !values.text("tls-key").isEmpty {
      configuration.tls = CertificateFiles(
        certificate: values.text("tls-certificate"), key: values.text("tls-key"))
    }
    return configuration
  }

  private func parts(
    _ server: Server, _ cache: Cache, _ sync: SyncParts, _ gate: Gate, _ collections: Collections
  ) -> RouteParts {
    let metrics: [Metrics.Source] = [
      { [unowned server] text in ServerMetrics.write(server, to: &text) },
      { text in ProcessMetrics.write(to: &text) },
      { text in sync.write(to: &text) },
      { text in SyncParts.write(unsentIn: cache, to: &text) },
      { text in CacheMetrics.write(cache, to: &text) },
      { text in
        CacheMetrics.writeCoverage(cache, generation: sync.syncRequests.link.generation, to: &text)
      },
    ]
    return RouteParts(
      status: status, metrics: Metrics(metrics), cache: cache, syncRequests: sync.syncRequests, gate: gate,
      webhookSignature: SyncParts.signature(values), collections: collections,
      outboxPolicy: sync.outboxPolicy,
      chatPageFileOrigins: values.text("chat-page") == "on" ? values.list("file-origins") : nil)
  }
}
