import ChatAPI
import Glibc
import Load
import MicroHTTP
import Platform

extension Command {
  /// `perch load`
  static let load = Command(
    name: "load", summary: "puts load on a service beside a stand-in, and reports how long everything took",
    settings: [
      Setting("url", .text, default: "http://127.0.0.1:8080", "the service"),
      Setting("metrics", .text, default: "", "the url of its metrics; /metrics of the service when empty"),
      Setting("data", .path, default: "data", "its data directory, whose secret signs the users' tokens"),
      AccessParts.secretSetting,
      Setting("auth", .choice(["on", "off"]), default: "on", "off: for a service with --auth off"),
      Setting("origin", .text, default: "http://127.0.0.1:8090", "its stand-in"),
      Setting("origin-token", .secret, default: "origin", "what the stand-in wants as Api-Token"),
      Setting("users", .number(1...100_000), default: "100", "users, who all connect"),
      Setting("channels", .number(1...100_000), default: "100", "channels; each user is a member of some"),
      Setting("parked", .number(1...100_000), default: "50", "users who follow a channel by long polls"),
      Setting(
        "messages", .text, default: "10/s", "messages; half are sent through Perch, half at the stand-in"),
      Setting(
        "beside", .text, default: "0/s",
        "messages through Perch into a small channel of its own, which nobody follows"),
      Setting("pages", .text, default: "10/s", "pages of messages that users read"),
      Setting("time", .duration, default: "1m", "how long"),
      Setting(
        "warm-up", .duration, default: "5s", "how long before that, which is not measured"),
    ],
    note:
      "It makes users load-user-1, load-user-2, … and their channels at the stand-in, and they stay there."
  ) { values in
    let isClean = try LoadRun(LoadCommand(values).settings, tell: LoadCommand.show) {
      Signals.arrives(withinMilliseconds: 0)
    }.printed()
    return isClean ? 0 : 1
  }
}

/// `perch load`: reads the settings.
private struct LoadCommand {
  private let values: SettingValues

  init(_ values: SettingValues) { self.values = values }

  var settings: LoadSettings {
    get throws {
      Signals.block()
      let parked = values.number("parked")
      guard parked <= values.number("users") else {
        throw SettingError(description: "--parked: at most as many as --users, \(values.number("users"))")
      }
      try LoadCommand.raiseDescriptors(to: parked + 256)
      let plan = LoadPlan(users: values.number("users"), channels: values.number("channels"), parked: parked)
      let metrics = values.text("metrics")
      let (service, _) = try host("url", values.text("url"))
      var settings = LoadSettings(
        plan, service: service, headers: try headers(),
        server: try host("origin", values.text("origin")).host,
        serverHeaders: ["Api-Token: \(values.text("origin-token"))"],
        metrics: metrics.isEmpty ? (service, "/metrics") : try host("metrics", metrics))
      settings.messagesPerSecond = try rate("messages")
      settings.besidePerSecond = try rate("beside")
      settings.pagesPerSecond = try rate("pages")
      settings.seconds = max(1, values.number("time") / 1000)
      settings.warmUp = values.number("warm-up") / 1000
      return settings
    }
  }

  /// The header lines that name a user. Tokens are signed once for each user.
  private func headers() throws -> (String) -> [String] {
    if values.text("auth") == "off" { return { ["Perch-User: \($0)"] } }
    let secrets: SigningSecrets
    do { secrets = try AccessParts.secretFile(values).read() } catch let failure as SecretFile.Failure {
      throw CommandFailure(
        description: failure.description + "; --data names the service's directory, --auth off needs none")
    }
    let expires = Clock.system.wallMilliseconds() / 1000 + 24 * 3600
    var tokens: [String: String] = [:]
    return { user in
      let token =
        tokens[user]
        ?? BearerToken(user: user, scopes: .chat, expires: expires).signed(with: secrets)
      tokens[user] = token
      return ["Authorization: Bearer \(token)"]
    }
  }

  private func rate(_ name: String) throws -> Double {
    let text = values.text(name)
    guard text.hasSuffix("/s"), let rate = Double(text.dropLast(2)), (0...100_000).contains(rate) else {
      throw SettingError(description: "--\(name): a number from 0 to 100000 and /s, such as 20/s")
    }
    return rate
  }

  private func host(_ name: String, _ url: String) throws -> (host: Host, path: String) {
    guard url.hasPrefix("http://") else {
      throw SettingError(description: "--\(name): \(url) does not begin with http://")
    }
    let rest = url.dropFirst("http://".count)
    let slash = rest.firstIndex(of: "/") ?? rest.endIndex
    let authority = String(rest[..<slash])
    guard let address = ListenAddress(authority) ?? ListenAddress(authority + ":80"),
      let host = Host(address.host, port: address.port, named: authority)
    else { throw SettingError(description: "--\(name): \(url) has no host with an address") }
    return (host, slash == rest.endIndex ? "/" : String(rest[slash...]))
  }

  /// Lets the process open so many descriptors.
  private static func raiseDescriptors(to count: Int) throws {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    guard limit.rlim_cur >= UInt(count) else {
      throw CommandFailure(
        description: "\(count) descriptors are needed, and `ulimit -Hn` is \(limit.rlim_cur): raise it")
    }
  }

  /// Shows a line of progress.
  static func show(_ line: String) { CommandLineCall.write(line + "\n", to: STDERR_FILENO) }
}

extension LoadRun {
  /// Runs the load and prints its report. Returns whether there was no error.
  fileprivate func printed() throws -> Bool {
    do {
      let report = try run()
      CommandLineCall.write(report.text, to: STDOUT_FILENO)
      return report.isClean
    } catch let failure as LoadFailure { throw CommandFailure(description: failure.description) }
  }
}
