/// One line, or a few, of the table: what is measured against whom. Each row is a file in Rows.
struct Row: Sendable {
  let name: String
  let work: String
  let measure: @Sendable (Bench) throws -> [Figure]

  static let all: [Row] = [
    .statement, .page, .notModified, .service, .ingest, .depth, .fanOut, .feed, .arrival, .firstSync,
    .firstMillion, .held, .origin, .eviction, .largeCache, .streams,
  ]
}

/// One measured comparison.
struct Figure {
  enum Goal {
    case atLeast(Double)
    case atMost(Double)
  }

  let title: String
  let unit: String
  let ours: Double
  /// Nil without peers.
  let peer: Double?
  let peerName: String
  /// What the ratio is to be; for figures without a peer, what ours is to be.
  let goal: Goal?
  let ratio: Double?

  /// One value, and the peer's.
  init(title: String, unit: String, ours: Double, peer: Double?, peerName: String, goal: Goal?) {
    self.title = title
    self.unit = unit
    self.ours = ours
    self.peer = peer
    self.peerName = peerName
    self.goal = goal
    ratio = peer.map { ours / $0 }
  }

  /// Values that were measured in pairs; without the peer's there is no ratio. It is the median of the pairs'
  /// ratios: a machine that is slow for some seconds is so for both halves of a pair.
  init(title: String, unit: String, ours: [Double], peer: [Double], peerName: String, goal: Goal?) {
    self.title = title
    self.unit = unit
    self.ours = ours.median
    self.peer = peer.isEmpty ? nil : peer.median
    self.peerName = peerName
    self.goal = goal
    ratio = peer.isEmpty ? nil : zip(ours, peer).map { $0 / $1 }.median
  }

  var isReached: Bool? {
    guard let value = ratio ?? (peerName.isEmpty ? ours : nil), let goal else { return nil }
    return switch goal {
    case .atLeast(let bound): value >= bound
    case .atMost(let bound): value <= bound
    }
  }
}
