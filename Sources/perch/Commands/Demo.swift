import ChatAPI
import Glibc
import MicroHTTP
import Origin
import Platform

extension Command {
  /// `perch demo`
  static let demo = Command(
    name: "demo", summary: "the service and a stand-in chat server in one process, with seeded users",
    settings: [
      Setting("listen", .address, default: "127.0.0.1:8080", "where the service listens"),
      Setting("origin-listen", .address, default: "127.0.0.1:8090", "where the stand-in chat server listens"),
      Setting("data", .path, default: "data", "the data directory; created if it is missing"),
      Setting(
        "demo-host", .hosts, default: "",
        "hosts for which /demo answers, besides 127.0.0.1 and localhost; /demo gives out tokens"),
      Setting(
        "clock-offset", .offset, default: "0",
        "how far the stand-in's clock is ahead (+10m) or behind (-10m), for tests"),
    ],
    note: """
      The service takes the variables of `perch serve --help`, too: PERCH_CORS_ORIGINS for pages of other
      origins, PERCH_KEEP_EVENTS_FOR, PERCH_CACHE_MAX_SIZE and others. The users' tokens are good for a week;
      `perch token --data PATH --user NAME --ttl 10m` prints another.
      """
  ) { values in try Demo(values).run() }
}

/// `perch demo`, composed: the stand-in, then the service that has it as its upstream, then the webhooks
/// back.
///
/// The stand-in's key and the webhooks' secret are made anew at each start. No file has them, and those of
/// one demo do not fit another.
private struct Demo {
  private static let chatterPerSecond = 2

  private let values: SettingValues

  init(_ values: SettingValues) { self.values = values }

  func run() throws -> Int32 {
    Signals.block()
    let data = values.text("data")
    try DataDirectory.prepare(data)
    var configuration = OriginServer.Configuration()
    configuration.listen = values.address("origin-listen")
    configuration.dataPath = data + "/origin"
    configuration.seed = .small
    configuration.token = SigningSecrets.makeLine()
    let webhookSecret = SigningSecrets.makeLine()
    configuration.webhookSecret = webhookSecret
    configuration.clock = Clock.system.moved(byMilliseconds: Int64(values.number("clock-offset")))
    let origin = try OriginServer(configuration)
    try origin.start()
    defer { origin.stop() }
    let served = try serveValues(
      upstream: origin.base, token: configuration.token, webhookSecret: webhookSecret)
    let users = try DemoUsers(AccessParts.secretFile(served))
    let service = try Service(served)
    let rule = HostRule(
      names: values.list("demo-host"), origins: served.list("cors-origins"),
      advice: "`perch demo --demo-host NAME` (or PERCH_DEMO_HOST) allows another name.")
    return try service.run(demoRoutes: DemoRoutes.routes(of: (users, origin), answering: rule)) { url in
      origin.sendWebhooks(to: url + "/v1/webhooks/sendbird")
      origin.startChatter(perSecond: Demo.chatterPerSecond)
      let shown = Demo.shown(url)
      CommandLineCall.write(
        Demo.greeting(shown, users, origin, key: configuration.token), to: STDOUT_FILENO)
    }
  }

  /// The service's settings: the demo's own, then those of the environment. Where the environment sets
  /// nothing, the service logs less and polls more often.
  private func serveValues(upstream: String, token: String, webhookSecret: String) throws -> SettingValues {
    let environment = CommandLineCall.environment()
    var words = [
      "--listen", values.address("listen").description, "--data", values.text("data"), "--upstream", upstream,
      "--upstream-token", token, "--webhook-secret", webhookSecret, "--auth", "on",
      "--upstream-deduplicates", "yes",
    ]
    for (name, variable, value) in [
      ("--access-log", "PERCH_ACCESS_LOG", "off"), ("--log-level", "PERCH_LOG_LEVEL", "warning"),
      ("--poll-interval", "PERCH_POLL_INTERVAL", "1s"), ("--prefetch-rate", "PERCH_PREFETCH_RATE", "0"),
    ] where environment[variable] == nil {
      words += [name, value]
    }
    return try SettingReader(command: .serve).read(words, environment: environment)
  }

  /// The service's url for a client on this machine: an address that stands for all is shown as loopback.
  private static func shown(_ url: String) -> String {
    for (all, own) in [("//0.0.0.0:", "//127.0.0.1:"), ("//[::]:", "//[::1]:")] {
      if url.contains(all) { return url.replacing(all, with: own) }
    }
    return url
  }

  private static func greeting(
    _ url: String, _ users: DemoUsers, _ origin: OriginServer, key: String
  ) -> String {
    let tokens = DemoUsers.ids.map { user in
      "  \(user)\(String(repeating: " ", count: 12 - user.utf8.count))\(users.token(of: user))\n"
    }
    return """

      \(tokens.joined())
        open        \(url)/
        curl        curl -s -H 'Authorization: Bearer \(users.token(of: "alice"))' \(url)/v1/channels
        go offline  curl -s -X PUT -H 'Content-Type: application/json' -d '{"up":false}' \(url)/demo/upstream
        key         \(key) (the stand-in's Api-Token, until this demo ends)
        upstream    \(origin.base) (the stand-in, where people talk; Ctrl-C stops both)

      """
  }
}
