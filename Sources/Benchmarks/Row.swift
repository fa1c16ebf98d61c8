/// One line, or a few, of the table: what is measured against whom. Each row is a file in Rows.
struct Row: Sendable {
  let name: String
  let work: String
  let measure: @Sendable (Bench) throws -> [Figure]

  static let all: [Row] = [
    .statement, .page, .notModified, .service, .ingest, .depth, .fanOut, .feed, .arrival, .firstSync, .origin,
  ]
}

/// One measured comparison.
struct Figure {
  enum Goal {
    case atLeast(Double)
    case atMost(Double)
  }

  let what: String
  let unit: String
  let ours: Double
  /// Nil without peers.
  let peer: Double?
  let peerName: String
  /// What the ratio is to be; for figures without a peer, what ours is to be.
  let goal: Goal?

  var ratio: Double? { peer.map { ours / $0 } }

  var isReached: Bool? {
    guard let value = ratio ?? (peerName.isEmpty ? ours : nil), let goal else { return nil }
    return switch goal {
    case .atLeast(let bound): value >= bound
    case .atMost(let bound): value <= bound
    }
  }
}
