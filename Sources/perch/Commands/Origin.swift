import Glibc
import MicroHTTP
import Origin
import Platform

extension Command {
  /// `perch origin`
  static let origin = Command(
    name: "origin", summary: "the stand-in upstream: a small chat server of its own",
    settings: [
      Setting("listen", .address, default: "127.0.0.1:8090", "where to listen; port 0 picks a free one"),
      Setting("data", .path, default: ":memory:", "the directory of its database and uploads, or :memory:"),
      Setting("token", .secret, default: "origin", "what clients send as Api-Token"),
      Setting("webhook", .text, default: "", "the URL that webhooks are sent to; none when empty"),
      Setting("webhook-secret", .secret, default: "", "signs the webhooks; the token when empty"),
      Setting("seed", .text, default: "small", "fills an empty database: none, small, large or N channels"),
      Setting("chatter", .text, default: "0/s", "messages that seeded users go on sending, such as 2/s"),
      Setting(
        "clock-offset", .offset, default: "0",
        "how far the server's clock is ahead (+10m) or behind (-10m), for tests"),
      Setting(
        "record", .path, default: "",
        "the new file that requests to --upstream and its answers are written to, their texts blanked"),
      Setting(
        "upstream", .text, default: "",
        "the real server that --record asks, such as https://api-APP.sendbird.com"),
      Setting(
        "record-ids", .choice(["blanked", "kept"]), default: "blanked",
        "whether --record blanks the ids of users and channels"),
      Setting("replay", .path, default: "", "the recording that answers all requests instead"),
      Setting(
        "replay-timing", .flag, default: "off", "whether replayed answers take as long as the recorded ones"),
    ]
  ) { values in
    if !values.text("record").isEmpty || !values.text("replay").isEmpty {
      return try Command.runRecorded(values)
    }
    guard values.text("upstream").isEmpty else {
      throw SettingError(description: "--upstream needs --record")
    }
    guard let seed = Seed(values.text("seed")) else {
      throw SettingError(description: "--seed: none, small, large or a number of channels")
    }
    let pace = values.text("chatter")
    guard pace.hasSuffix("/s"), let perSecond = Int(pace.dropLast(2)), (0...1000).contains(perSecond) else {
      throw SettingError(description: "--chatter: a number from 0 to 1000 and /s, such as 2/s")
    }
    var configuration = OriginServer.Configuration()
    configuration.listen = values.address("listen")
    configuration.dataPath = values.text("data")
    configuration.token = values.text("token")
    if !values.text("webhook").isEmpty { configuration.webhookURL = values.text("webhook") }
    if !values.text("webhook-secret").isEmpty { configuration.webhookSecret = values.text("webhook-secret") }
    configuration.seed = seed
    configuration.clock = Clock.system.moved(byMilliseconds: Int64(values.number("clock-offset")))

    Signals.block()
    let origin = try OriginServer(configuration)
    let port = try origin.start()
    CommandLineCall.write(
      "listening on http://\(ListenAddress(host: values.address("listen").host, port: port).description)\n",
      to: STDOUT_FILENO)
    if perSecond > 0 { origin.startChatter(perSecond: perSecond) }
    _ = Signals.wait()
    origin.stop()
    return 0
  }
}
