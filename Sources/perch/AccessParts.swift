import ChatAPI
import Platform

/// Who may ask, composed from the settings: tokens under secrets of a file, or names on loopback.
struct AccessParts {
  /// Lets requests in.
  let gate: Gate
  private let keyring: Keyring?

  init(_ values: SettingValues) throws {
    if values.text("auth") == "off" {
      keyring = nil
      gate = Gate(.named)
      return
    }
    do {
      let made = try Keyring(file: AccessParts.secretFile(values))
      keyring = made
      gate = Gate(.tokens(made))
    } catch let failure as SecretFile.Failure {
      throw CommandFailure(description: failure.description)
    }
  }

  /// Refuses settings that would let anybody in.
  static func check(_ values: SettingValues) throws {
    let host = values.address("listen").host
    guard values.text("auth") != "off" || ["127.0.0.1", "::1", "[::1]", "localhost"].contains(host) else {
      throw SettingError(
        description: "--auth off: only on a loopback address, not on \(host); anybody could ask there")
    }
  }

  /// The settings of who may ask.
  static let settings: [Setting] = [
    Setting("auth", .choice(["on", "off"]), default: "on", "off: the header Perch-User names the user"),
    secretSetting,
  ]

  /// Where the secrets are.
  static let secretSetting = Setting(
    "auth-secret-file", .path, default: "",
    "the secrets that sign tokens; made in the data directory when empty"
  )

  static func secretFile(_ values: SettingValues) -> SecretFile {
    let path = values.text("auth-secret-file")
    return path.isEmpty ? SecretFile(inDataDirectory: values.text("data")) : SecretFile(path: path)
  }

  /// Reads the secrets again; what cannot be read leaves them as they are.
  func reread() {
    do {
      try keyring?.reread()
      Log.line(.info, "secrets_reread")
    } catch {
      Log.line(.error, "secrets_not_reread", ["reason": .text("\(error)")])
    }
  }
}
