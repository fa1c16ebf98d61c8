/// Which request goes out next: the most important first, in order of arrival, at most `limit` in flight, no
/// faster than the bucket allows, none while the upstream asked for a pause (B35).
///
/// One place in flight is kept free for clients' own requests, so that slow background work never holds them
/// up.
package struct RequestQueue<Entry> {
  /// What to do now.
  package enum Decision {
    case start(Entry)
    /// Nothing before that moment (monotonic ms).
    case wait(until: Int64)
    /// Nothing until something changes.
    case idle
  }

  private var lanes: [[Entry]] = Importance.allCases.map { _ in [] }
  private var bucket: TokenBucket
  private let limit: Int
  private(set) var inFlight = 0
  private var backgroundInFlight = 0
  /// Requests started in a row while less important ones waited.
  private var passedOver = 0
  /// After so many a less important one has its turn, so that nothing waits without end.
  static var mostPassedOver: Int { 8 }
  /// No request starts before this moment (monotonic ms).
  package private(set) var pausedUntil: Int64 = 0

  /// An empty queue.
  package init(limit: Int, bucket: TokenBucket) {
    self.limit = max(1, limit)
    self.bucket = bucket
  }

  /// How many wait.
  package var count: Int { lanes.reduce(0) { $0 + $1.count } }

  /// Whether clients' own requests wait (B33).
  package var hasForegroundWaiting: Bool { !lanes[Importance.foreground.rawValue].isEmpty }

  /// Adds a request at the end of its lane.
  package mutating func add(_ entry: Entry, _ importance: Importance) {
    lanes[importance.rawValue].append(entry)
  }

  /// Takes out the waiting request that matches, if it still waits.
  package mutating func remove(where matches: (Entry) -> Bool) -> Entry? {
    for lane in lanes.indices {
      if let index = lanes[lane].firstIndex(where: matches) { return lanes[lane].remove(at: index) }
    }
    return nil
  }

  /// Takes all that wait.
  package mutating func removeAll() -> [Entry] {
    defer { lanes = lanes.map { _ in [] } }
    return lanes.flatMap { $0 }
  }

  /// The upstream asked for silence until `moment`.
  package mutating func pause(until moment: Int64) { pausedUntil = max(pausedUntil, moment) }

  /// A started request ended.
  package mutating func finished(_ importance: Importance) {
    inFlight -= 1
    if importance == .background { backgroundInFlight -= 1 }
  }

  /// The most important lane in which a request waits, or the last such where it was passed over for long.
  private var lane: Int? {
    let isTurn = passedOver >= RequestQueue.mostPassedOver
    return isTurn
      ? lanes.indices.last { !lanes[$0].isEmpty } : lanes.indices.first { !lanes[$0].isEmpty }
  }

  /// What to do at `now`; a request that is started counts as in flight from now on.
  package mutating func next(now: Int64) -> Decision {
    guard inFlight < limit, let lane = lane else { return .idle }
    let isBackground = lane == Importance.background.rawValue
    if isBackground && limit > 1 && backgroundInFlight >= limit - 1 { return .idle }
    guard now >= pausedUntil else { return .wait(until: pausedUntil) }
    if let later = bucket.take(now: now) { return .wait(until: later) }
    passedOver = lanes[(lane + 1)...].contains { !$0.isEmpty } ? passedOver + 1 : 0
    inFlight += 1
    if isBackground { backgroundInFlight += 1 }
    return .start(lanes[lane].removeFirst())
  }
}
