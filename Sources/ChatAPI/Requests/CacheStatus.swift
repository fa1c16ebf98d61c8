import ChatCache
import MicroHTTP

/// How an answer came about, as `Cache-Status` says it (RFC 9211, B15).
enum CacheStatus: Int, CaseIterable {
  case hit, stored, partial, offline

  var text: StaticString {
    switch self {
    case .hit: "perch; hit"
    case .stored: "perch; fwd=miss; stored"
    case .partial: "perch; fwd=partial"
    case .offline: "perch; hit; detail=offline"
    }
  }

  /// How an answer came about whose missing part was asked for with this outcome; nil: it was not waited for
  /// any longer.
  init(_ outcome: SyncOutcome?) {
    switch outcome {
    case .stored: self = .stored
    case .failed(.unreachable): self = .offline
    case .failed, .late, nil: self = .partial
    }
  }
}
