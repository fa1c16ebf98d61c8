import ChatCache
import Platform

/// How the service is, as readiness tells it.
package final class ServiceStatus: Sendable {
  /// Where its life stands.
  package enum Phase: String, Sendable {
    case starting, migrating, ready, stopping
  }

  /// What readiness answers.
  package struct Report: Sendable, Equatable {
    /// Where its life stands.
    package var phase = Phase.starting
    /// Where the cache is kept, as `--cache` names it.
    package var mode = "sqlite"
    /// What is not as it should be although the service answers, as stable words; the link's are not here.
    package var reasons: [String] = []
    /// How far a migration is, while there is one (B63).
    package var migration: MigrationProgress?
  }

  private let state = Guarded(Report())

  /// A service that starts.
  package init() {}

  /// The service answers from now on, from a cache of that mode; `reasons` say what is missing all the same.
  package func becomeReady(mode: String = "sqlite", reasons: [String] = []) {
    state.withLock { $0 = Report(phase: .ready, mode: mode, reasons: reasons) }
  }

  /// The database is brought to this program's schema; nothing else is answered meanwhile.
  package func migrates(_ progress: MigrationProgress) {
    state.withLock {
      $0.phase = .migrating
      $0.migration = progress
    }
  }

  /// The service ends; from now on it is not ready, whatever else is told.
  package func beginStopping() { state.withLock { $0.phase = .stopping } }

  /// How it is now.
  package var report: Report { state.withLock { $0 } }
}
