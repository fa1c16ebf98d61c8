/// A harness's finding: a parser that broke a promise. A crash needs no finding.
struct FuzzFinding: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// One kind of input from outside, and the harness that feeds it to its parser.
///
/// libFuzzer calls a harness with millions of inputs (`make fuzz`), and CorpusTests with the inputs in
/// Corpus/. A harness throws a FuzzFinding if a promise is broken. It keeps no state between two inputs, so
/// that an input alone repeats its finding.
struct FuzzTarget: Sendable {
  /// The name of the folder below Corpus, and of `make fuzz TARGET=`.
  let name: String
  /// Feeds one input.
  let run: @Sendable (UnsafeRawBufferPointer) throws -> Void

  static let all = [
    FuzzTarget(name: "request") { try RequestHarness.shared.run($0) },
    FuzzTarget(name: "multipart", run: MultipartHarness.run),
    FuzzTarget(name: "query", run: QueryHarness.run),
    FuzzTarget(name: "tokens", run: TokenHarness.run),
    FuzzTarget(name: "upstream", run: UpstreamHarness.run),
    FuzzTarget(name: "bodies", run: BodyHarness.run),
  ]
}

/// Throws unless the promise was kept.
func check(_ isKept: Bool, _ promise: @autoclosure () -> String) throws(FuzzFinding) {
  if !isKept { throw FuzzFinding(promise()) }
}
