import ChatAPI
import Glibc
import Platform

extension Command {
  /// `perch token`
  static let token = Command(
    name: "token", summary: "prints a bearer token for a user, and nothing else",
    settings: [
      Setting("data", .path, default: "data", "the service's data directory"),
      AccessParts.secretSetting,
      Setting("user", .text, default: nil, "whom the token names"),
      Setting("scope", .choice(["chat", "admin"]), default: "chat", "admin adds the operator's endpoints"),
      Setting("ttl", .duration, default: "24h", "how long it is good"),
    ]
  ) { values in
    let user = values.text("user")
    guard !user.isEmpty, user.count <= BearerToken.userLimit else {
      throw SettingError(description: "--user: give 1 to \(BearerToken.userLimit) characters")
    }
    do {
      let secrets = try AccessParts.secretFile(values).read()
      let expires = Clock.system.wallMilliseconds() / 1000 + Int64(max(1, values.number("ttl") / 1000))
      let scopes: Scopes = values.text("scope") == "admin" ? [.chat, .admin] : .chat
      let token = BearerToken(user: user, scopes: scopes, expires: expires)
      CommandLineCall.write(token.signed(with: secrets) + "\n", to: STDOUT_FILENO)
    } catch let failure as SecretFile.Failure {
      throw CommandFailure(
        description: failure.description + "; `perch serve` makes the secret at its first start")
    }
    return 0
  }
}
