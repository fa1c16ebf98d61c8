import Glibc
import Platform

/// The routes as a trie over decoded path segments.
///
/// A literal segment wins over a parameter; there is no going back, so two templates may not differ in the
/// name of a parameter at one place only.
final class Router: Sendable {
  /// A place in the tree.
  final class Node: Sendable {
    fileprivate let literals: [(segment: [UInt8], node: Node)]
    fileprivate let parameter: Node?
    fileprivate let endpoints: [Endpoint]
    let allow: String

    fileprivate init(_ draft: Draft) {
      literals = draft.literals.map { ($0.segment, Node($0.draft)) }
      parameter = draft.parameter.map { Node($0) }
      endpoints = draft.endpoints
      allow = Router.allow(draft.endpoints.map(\.route.method))
    }

    /// The endpoint of `method`; HEAD finds that of GET.
    func endpoint(_ method: Method) -> Endpoint? {
      let wanted = method == .head ? Method.get : method
      for endpoint in endpoints where endpoint.route.method == wanted { return endpoint }
      return nil
    }
  }

  /// A place in the tree while routes are being added.
  fileprivate final class Draft {
    var literals: [(segment: [UInt8], draft: Draft)] = []
    var parameter: Draft?
    var endpoints: [Endpoint] = []
  }

  private let root: Node

  init(_ routes: [Route]) {
    let draft = Draft()
    for route in routes { Router.add(route, to: draft) }
    root = Node(draft)
  }

  private static func add(_ route: Route, to root: Draft) {
    precondition(route.path.utf8.first == UInt8(ascii: "/"), "\(route.path) does not begin with a slash")
    var draft = root
    var names: [String] = []
    for segment in route.path.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
      if segment.first == "{", segment.last == "}" {
        names.append(String(segment.dropFirst().dropLast()))
        let next = draft.parameter ?? Draft()
        draft.parameter = next
        draft = next
      } else if let known = draft.literals.first(where: { $0.segment.elementsEqual(segment.utf8) }) {
        draft = known.draft
      } else {
        let next = Draft()
        draft.literals.append((Array(segment.utf8), next))
        draft = next
      }
    }
    precondition(names.count <= RequestTarget.mostParameters, "\(route.path) has too many parameters")
    let isTaken = draft.endpoints.contains { $0.route.method == route.method }
    precondition(!isTaken, "\(route.path) is declared twice")
    draft.endpoints.append(Endpoint(route, parameterNames: names))
  }

  private static func allow(_ methods: [Method]) -> String {
    var all = Set(methods)
    if all.contains(.get) { all.insert(.head) }
    all.insert(.options)
    return Method.allCases.filter(all.contains).map { "\($0.name)" }.joined(separator: ", ")
  }

  /// Walks the target's segments, decoding each in place and noting the parameters' ranges. Nil when nothing
  /// is there.
  func find(_ target: inout RequestTarget) throws(Problem) -> Node? {
    var node = root
    var walk = target.startWalk()
    while let segment = try target.nextSegment(&walk) {
      if let next = node.literals.first(where: { matches($0.segment, segment.bytes) })?.node {
        node = next
      } else if let next = node.parameter, !segment.bytes.isEmpty {
        target.note(segment)
        node = next
      } else {
        // The rest is still checked, so that a bad escape is a 400 wherever it stands.
        while try target.nextSegment(&walk) != nil {}
        return nil
      }
    }
    return node.endpoints.isEmpty ? nil : node
  }
}

/// What is served: the routes, and what is answered where none is.
final class RouteTable: Sendable {
  let router: Router
  let otherwise: Problem

  init(_ routes: [Route], otherwise: Problem) {
    router = Router(routes)
    self.otherwise = otherwise
  }
}

@inline(__always)
private func matches(_ literal: [UInt8], _ bytes: UnsafeRawBufferPointer) -> Bool {
  literal.count == bytes.count
    && (bytes.isEmpty
      || literal.withUnsafeBytes { memcmp($0.baseAddress!, bytes.baseAddress!, bytes.count) == 0 })
}

/// A route as the server keeps it.
final class Endpoint: Sendable {
  let route: Route
  let parameterNames: [String]
  /// `"route":"…","operation":"…"`, ready for the access log.
  let logged: [UInt8]

  init(_ route: Route, parameterNames: [String]) {
    self.route = route
    self.parameterNames = parameterNames
    var logged = ByteBuffer(capacity: 128)
    logged.append("\"route\":")
    logged.append(quoted: route.path)
    logged.append(",\"operation\":")
    logged.append(quoted: route.operation)
    self.logged = logged.array
  }
}
