extension Request {
  /// The segments of the route's path with the parameters decoded; empty if no route was found.
  package var pathSegments: [String] {
    guard let endpoint else { return [] }
    var index = -1
    return endpoint.route.path.split(separator: "/", omittingEmptySubsequences: false).map { segment in
      guard segment.first == "{" else { return String(segment) }
      index += 1
      return parameter(index)
    }
  }
}
