/// One measurement against peers, with one or a few lines of the table. Each is in a file in Rows.
struct Row: Sendable {
  let name: String
  let work: String
  /// Whether the row is measured only if it is named, because it takes much time and disk.
  var isLong = false
  let measure: @Sendable (Bench) throws -> [Figure]

  static let all: [Row] = [
    .statement, .page, .notModified, .service, .ingest, .depth, .fanOut, .feed, .arrival, .firstSync,
    .firstMillion, .held, .origin, .eviction, .largeCache, .streams, .crowd, .border,
    .manyChannels, .startWithChannels, .turn, .lists, .room, .clear, .hugeCache,
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
  /// The peer's value; nil without peers.
  let peer: Double?
  let peerName: String
  /// The goal for the ratio; for figures without a peer, the goal for `ours`.
  let goal: Goal?
  let ratio: Double?

  /// One value of Perch's, and one of the peer's.
  init(title: String, unit: String, ours: Double, peer: Double?, peerName: String, goal: Goal?) {
    self.title = title
    self.unit = unit
    self.ours = ours
    self.peer = peer
    self.peerName = peerName
    self.goal = goal
    ratio = peer.map { ours / $0 }
  }

  /// Values that were measured in pairs. The ratio is the median of the pairs' ratios, because a machine that
  /// is slow for some seconds slows both halves of a pair. Without values of the peer there is no ratio.
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
