import ChatAPI
import MicroHTTP
import Platform

/// Authentication as the settings say: tokens signed with a file's secrets, or user names on loopback.
struct AccessParts {
  /// Checks tokens and names callers.
  let gate: Gate
  private let keyring: Keyring?

  init(_ values: SettingValues) throws {
    if values.text("auth") == "off" {
      keyring = nil
      gate = Gate(.named, ticketSecrets: try AccessParts.secrets(values).now.secrets)
      return
    }
    let made = try AccessParts.secrets(values)
    keyring = made
    gate = Gate(.tokens(made))
  }

  private static func secrets(_ values: SettingValues) throws -> Keyring {
    do { return try Keyring(file: secretFile(values)) } catch let failure as SecretFile.Failure {
      throw CommandFailure(description: failure.description)
    }
  }

  /// Refuses `--auth off` on an address where anybody could ask.
  static func check(_ values: SettingValues) throws {
    guard values.text("auth") == "off" else { return }
    let hosts = [values.address("listen").host, values.optionalAddress("admin-listen")?.host]
    for host in hosts.compactMap({ $0 }) where !HostRule.isLoopback(host) {
      throw SettingError(
        description: "--auth off: only on a loopback address, not on \(host); anybody could ask there")
    }
  }

  /// The routes as they are served. With `--auth off`, routes under `/v1` answer only to a loopback `Host`.
  /// Otherwise any web page could ask them once its name resolves to this machine.
  func guarded(_ routes: [Route]) -> [Route] {
    guard keyring == nil else { return routes }
    let rule = HostRule(advice: "Other hosts need bearer tokens: start the service without --auth off.")
    return routes.map { $0.path.hasPrefix("/v1/") ? $0.answering(only: rule) : $0 }
  }

  /// The settings of authentication.
  static let settings: [Setting] = [
    Setting("auth", .choice(["on", "off"]), default: "on", "off: the header Perch-User names the user"),
    secretSetting,
  ]

  /// The setting that names the secrets' file.
  static let secretSetting = Setting(
    "auth-secret-file", .path, default: "",
    "the secrets that sign tokens; made in the data directory when empty"
  )

  static func secretFile(_ values: SettingValues) -> SecretFile {
    let path = values.text("auth-secret-file")
    return path.isEmpty ? SecretFile(inDataDirectory: values.text("data")) : SecretFile(path: path)
  }

  /// Reads the secrets again. If that fails, keeps the old ones and logs why.
  func reread() {
    do {
      try keyring?.reread()
      Log.line(.info, "secrets_reread")
    } catch {
      Log.line(.error, "secrets_not_reread", ["reason": .text("\(error)")])
    }
  }
}
