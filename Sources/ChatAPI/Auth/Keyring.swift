import Platform
import Synchronization

/// The secrets in force, exchanged while the service runs.
package final class Keyring: Sendable {
  private let file: SecretFile?
  private let current: Guarded<SigningSecrets>
  private let number = Atomic<UInt64>(1)

  /// The secrets of `file`, made first where there is none.
  package init(file: SecretFile) throws {
    self.file = file
    current = Guarded(try file.readOrMake())
  }

  /// Secrets that stay.
  package init(_ secrets: SigningSecrets) {
    file = nil
    current = Guarded(secrets)
  }

  /// Reads the file again, as SIGHUP asks for; what cannot be read leaves the secrets as they are.
  package func reread() throws {
    guard let file else { return }
    let secrets = try file.read()
    current.withLock { current in
      guard current != secrets else { return }
      current = secrets
      number.wrappingAdd(1, ordering: .releasing)
    }
  }

  /// The secrets, and the number of this set of them: what was checked under another number is checked again.
  package var now: (secrets: SigningSecrets, generation: UInt64) {
    current.withLock { ($0, generation) }
  }

  /// That number.
  var generation: UInt64 { number.load(ordering: .acquiring) }
}
