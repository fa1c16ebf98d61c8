import MicroHTTP

/// How an answer came about, as `Cache-Status` says it (RFC 9211, B15).
enum CacheStatus {
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

/// A link to a neighbouring page: this request's target with another edge, as a reference that names the
/// query alone (RFC 8288, RFC 3986).
enum PageLink {
  static func text(_ request: Request, _ edge: String, _ token: String, _ relation: String) -> String {
    var items = String(decoding: request.encodedQuery, as: UTF8.self).split(separator: "&").filter { item in
      let name = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)[0]
      return !["before", "after", "around", "inclusive", "ticket"].contains(name)
    }
    let own = "\(edge)=\(token)"
    items.append(own[...])
    return "<?\(items.joined(separator: "&"))>; rel=\"\(relation)\""
  }
}
