import Glibc
import MicroHTTP
import Origin
import Platform

extension Command {
  /// `perch origin --record` writes a real server's answers to a file; `perch origin --replay` gives them
  /// again.
  static func runRecorded(_ values: SettingValues) throws -> Int32 {
    guard values.text("replay").isEmpty || values.text("record").isEmpty else {
      throw SettingError(description: "--record and --replay exclude each other")
    }
    return try values.text("replay").isEmpty ? record(values) : replay(values)
  }

  private static func record(_ values: SettingValues) throws -> Int32 {
    let upstream = values.text("upstream")
    guard upstream.hasPrefix("https://") || upstream.hasPrefix("http://") else {
      throw SettingError(description: "--record needs --upstream, such as https://api-APP.sendbird.com")
    }
    var configuration = RecordingProxy.Configuration(upstream: upstream, path: values.text("record"))
    configuration.listen = values.address("listen")
    configuration.keepsIDs = values.text("record-ids") == "kept"
    Signals.block()
    let proxy = try RecordingProxy(configuration)
    say(values, port: try proxy.start())
    _ = Signals.wait()
    let report = proxy.stop()
    CommandLineCall.write(
      "\(report.exchanges) exchanges recorded, \(report.lost) not\n", to: STDOUT_FILENO)
    if let failure = report.failure {
      throw CommandFailure(description: "cannot write \(values.text("record")): \(failure)")
    }
    return 0
  }

  private static func replay(_ values: SettingValues) throws -> Int32 {
    Signals.block()
    let server = try ReplayServer(
      path: values.text("replay"), listen: values.address("listen"),
      isTimed: values.text("replay-timing") == "on")
    say(values, port: try server.start())
    _ = Signals.wait()
    server.stop()
    let unknown = server.unknown
    for request in unknown { CommandLineCall.write("not recorded: \(request)\n", to: STDERR_FILENO) }
    return unknown.isEmpty ? 0 : 1
  }

  private static func say(_ values: SettingValues, port: UInt16) {
    CommandLineCall.write(
      "listening on http://\(ListenAddress(host: values.address("listen").host, port: port).description)\n",
      to: STDOUT_FILENO)
  }
}
