import ChatCache
import MicroHTTP

/// Where an answer's data came from: the value of the header `Cache-Status` (RFC 9211, B15).
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

  /// The status of an answer whose missing part was fetched with this outcome. Nil: the fetch did not end in
  /// time.
  init(_ outcome: SyncOutcome?) {
    switch outcome {
    case .stored: self = .stored
    case .failed(.unreachable): self = .offline
    case .failed, .late, nil: self = .partial
    }
  }
}
