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
      Setting("user", .text, default: "", "whom the token names; an operator's needs no user"),
      Setting("scope", .choice(["chat", "admin"]), default: "chat", "admin adds the operator's endpoints"),
      Setting("ttl", .duration, default: "24h", "how long it is good"),
    ]
  ) { values in
    let isOperator = values.text("scope") == "admin"
    let user = values.text("user")
    guard user.unicodeScalars.count <= BearerToken.userLimit, isOperator || !user.isEmpty else {
      throw SettingError(description: "--user: give 1 to \(BearerToken.userLimit) characters")
    }
    do {
      let secrets = try AccessParts.secretFile(values).read()
      let expires = Clock.system.wallMilliseconds() / 1000 + Int64(max(1, values.number("ttl") / 1000))
      let scopes: Scopes = user.isEmpty ? .admin : isOperator ? [.chat, .admin] : .chat
      let token = BearerToken(user: user.isEmpty ? "operator" : user, scopes: scopes, expires: expires)
      CommandLineCall.write(token.signed(with: secrets) + "\n", to: STDOUT_FILENO)
    } catch let failure as SecretFile.Failure {
      throw CommandFailure(
        description: failure.description + "; `perch serve` makes the secret at its first start")
    }
    return 0
  }
}
