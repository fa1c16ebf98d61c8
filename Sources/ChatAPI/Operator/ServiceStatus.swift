import ChatCache
import Platform

/// The service's status, as `/readyz` answers it.
package final class ServiceStatus: Sendable {
  /// How far the service has started or stopped.
  package enum Phase: String, Sendable {
    case starting, migrating, ready, stopping
  }

  /// The content of a `/readyz` answer.
  package struct Report: Sendable, Equatable {
    /// How far the service has started or stopped.
    package var phase = Phase.starting
    /// How the cache is stored.
    package var mode = "sqlite"
    /// Codes of the problems that the service has although it answers. `HealthRoutes` adds the link's.
    package var reasons: [String] = []
    /// The progress of the running migration, if there is one (B63).
    package var migration: MigrationProgress?
  }

  private let state = Guarded(Report())

  /// A service that starts.
  package init() {}

  /// The service answers requests from now on.
  package func becomeReady() {
    state.withLock { $0 = Report(phase: .ready) }
  }

  /// A migration is running. Until it ends, only `/healthz` and `/readyz` are answered.
  package func migrates(_ progress: MigrationProgress) {
    state.withLock {
      $0.phase = .migrating
      $0.migration = progress
    }
  }

  /// The service is stopping. It is not ready from now on, whatever is reported later.
  package func beginStopping() { state.withLock { $0.phase = .stopping } }

  /// The present status.
  package var report: Report { state.withLock { $0 } }
}
