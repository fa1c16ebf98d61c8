import Glibc

/// The routes as a trie over decoded path segments.
///
/// A literal segment wins over a parameter, without backtracking. Templates that differ only in the names of
/// their parameters are the same path. The trie is laid out as plain numbers, so that a request walks it
/// without counting references.
final class Router: @unchecked Sendable {  // because nothing changes after it is made
  /// A node in the tree.
  struct Node {
    fileprivate let literals: Range<Int>
    /// The node for any other segment; 0, which is the root, if there is none.
    fileprivate let parameter: Int
    fileprivate let choices: Range<Int>
    /// The rule for the node's requests, whatever their method; the endpoints keep it.
    fileprivate let hostRule: Unmanaged<HostRule>?
  }

  private struct Literal {
    let letters: Range<Int>
    let node: Int
  }

  private struct Choice {
    let method: Method
    let endpoint: Unmanaged<Endpoint>
  }

  /// A node while routes are being added.
  private final class Draft {
    var literals: [(segment: [UInt8], draft: Draft)] = []
    var parameter: Draft?
    var endpoints: [Endpoint] = []
  }

  private let nodes: UnsafeBufferPointer<Node>
  private let literals: UnsafeBufferPointer<Literal>
  private let letters: UnsafeBufferPointer<UInt8>
  private let choices: UnsafeBufferPointer<Choice>

  init(_ routes: [Route]) {
    let root = Draft()
    for route in routes { Router.add(route, to: root) }
    var (nodes, literals, letters, choices) = ([Node](), [Literal](), [UInt8](), [Choice]())
    // Breadth first, so that the literals of one node lie together.
    var queue = [root]
    while nodes.count < queue.count {
      let draft = queue[nodes.count]
      let firstLiteral = literals.count
      for (segment, next) in draft.literals {
        literals.append(
          Literal(letters: letters.count..<(letters.count + segment.count), node: queue.count))
        letters += segment
        queue.append(next)
      }
      let firstChoice = choices.count
      choices += draft.endpoints.map { Choice(method: $0.route.method, endpoint: .passRetained($0)) }
      nodes.append(
        Node(
          literals: firstLiteral..<literals.count, parameter: draft.parameter == nil ? 0 : queue.count,
          choices: firstChoice..<choices.count,
          hostRule: draft.endpoints.lazy.compactMap(\.route.hostRule).first.map { .passUnretained($0) }))
      if let next = draft.parameter { queue.append(next) }
    }
    self.nodes = Router.laid(nodes)
    self.literals = Router.laid(literals)
    self.letters = Router.laid(letters)
    self.choices = Router.laid(choices)
  }

  deinit {
    for choice in choices { choice.endpoint.release() }
    nodes.deallocate()
    literals.deallocate()
    letters.deallocate()
    choices.deallocate()
  }

  private static func laid<Element>(_ elements: [Element]) -> UnsafeBufferPointer<Element> {
    let room = UnsafeMutableBufferPointer<Element>.allocate(capacity: elements.count)
    _ = room.initialize(from: elements)
    return UnsafeBufferPointer(room)
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

  /// Walks the target's segments, decoding each within the target and noting the parameters' ranges. Nil if
  /// no route has this path.
  func find(_ target: inout RequestTarget) throws(Problem) -> Node? {
    var node = nodes[0]
    var walk = target.startWalk()
    while let segment = try target.nextSegment(&walk) {
      if let next = literal(segment.bytes, at: node) {
        node = nodes[next]
      } else if node.parameter != 0, !segment.bytes.isEmpty {
        target.note(segment)
        node = nodes[node.parameter]
      } else {
        // The rest is still checked, so that a bad escape is a 400 wherever it stands.
        while try target.nextSegment(&walk) != nil {}
        return nil
      }
    }
    return node.choices.isEmpty ? nil : node
  }

  @inline(__always)
  private func literal(_ segment: UnsafeRawBufferPointer, at node: Node) -> Int? {
    for index in node.literals {
      let literal = literals[index]
      if literal.letters.count == segment.count,
        segment.isEmpty
          || memcmp(letters.baseAddress! + literal.letters.lowerBound, segment.baseAddress!, segment.count)
            == 0
      {
        return literal.node
      }
    }
    return nil
  }

  /// Why the node refuses a request, whatever its method; nil if it does not.
  func refusal(of request: Request, at node: Node) -> Problem? {
    node.hostRule?._withUnsafeGuaranteedRef {
      $0.refusal(host: request.header("Host"), origin: request.header("Origin"))
    }
  }

  /// The endpoint of `method` at a node; HEAD finds that of GET.
  func endpoint(_ method: Method, at node: Node) -> Unmanaged<Endpoint>? {
    let wanted = method == .head ? Method.get : method
    for choice in choices[node.choices] where choice.method == wanted { return choice.endpoint }
    return nil
  }

  /// The value of the header `Allow` for a node.
  func allow(at node: Node) -> String {
    var all = Set(choices[node.choices].map(\.method))
    if all.contains(.get) { all.insert(.head) }
    all.insert(.options)
    return Method.allCases.filter(all.contains).map { "\($0.name)" }.joined(separator: ", ")
  }
}
