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
}
