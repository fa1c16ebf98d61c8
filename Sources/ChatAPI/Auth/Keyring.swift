import Platform
import Synchronization

/// The signing secrets, which SIGHUP can replace while the service runs.
package final class Keyring: Sendable {
  private let file: SecretFile?
  private let current: Guarded<SigningSecrets>
  private let number = Atomic<UInt64>(1)

  /// The secrets of `file`. If there is no file, it is made first.
  package init(file: SecretFile) throws {
    self.file = file
    current = Guarded(try file.readOrMake())
  }

  /// Secrets that are never replaced.
  package init(_ secrets: SigningSecrets) {
    file = nil
    current = Guarded(secrets)
  }

  /// Reads the file again, as SIGHUP asks for. Throws and keeps the secrets if the file cannot be read.
  package func reread() throws {
    guard let file else { return }
    let secrets = try file.read()
    current.withLock { current in
      guard current != secrets else { return }
      current = secrets
      number.wrappingAdd(1, ordering: .releasing)
    }
  }

  /// The secrets and their generation. A token that was checked under another generation is checked again.
  package var now: (secrets: SigningSecrets, generation: UInt64) {
    current.withLock { ($0, generation) }
  }

  /// A number that rises when the secrets are replaced.
  var generation: UInt64 { number.load(ordering: .acquiring) }
}
