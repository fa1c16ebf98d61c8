import ChatModel

/// Which request goes out next: the most important first, in order of arrival, at most `limit` in flight, no
/// faster than the bucket allows, none of a kind for which the upstream asked for a pause (B35). Clients' own
/// requests wait for the end of a pause. Others fail at once, so that the sync jobs which made them do not
/// keep the slots of jobs that could go on.
///
/// Background requests and listings leave one slot free, so that slow ones never hold up clients' own
/// requests. Uploads take long, and have at most half of the slots, at least one. The requests of each
/// importance wait in a lane. Sends and the requests for open views take turns. A lane that was passed over
/// several times has its turn, so that none waits for ever.
package struct RequestQueue<Entry> {
  /// The next step for the client.
  package enum Decision {
    case start(Entry)
    /// Fail this request, because the upstream asked for a pause of its kind until that time (monotonic ms).
    case refuse(Entry, until: Int64)
    /// Start nothing before that time (monotonic ms).
    case wait(until: Int64)
    /// Start nothing until something changes.
    case idle
  }

  private struct Waiting {
    let entry: Entry
    let endpoint: ExactText
  }

  /// The number of more important requests that may start while a lane waits. After that many the lane has
  /// its turn.
  static var mostPassedOver: Int { 8 }

  private var lanes: [[Waiting]] = Importance.allCases.map { _ in [] }
  private var bucket: TokenBucket
  private let limit: Int
  private(set) var inFlight = 0
  /// Background requests and listings.
  private var slowInFlight = 0
  private var uploadsInFlight = 0
  /// For each lane: the more important requests that were started while it waited, since its last turn.
  private var passedOver = Importance.allCases.map { _ in 0 }
  /// Whether a send started after the last request for an open view.
  private var isTurnOfOpen = false
  /// The end of the pause of each kind of call (monotonic ms).
  private var pauses: [ExactText: Int64] = [:]

  /// An empty queue.
  package init(limit: Int, bucket: TokenBucket) {
    self.limit = max(1, limit)
    self.bucket = bucket
  }

  /// The number of waiting requests.
  package var count: Int { lanes.reduce(0) { $0 + $1.count } }

  /// Adds a request at the end of its lane; `endpoint`: what kind of call it is.
  package mutating func add(_ entry: Entry, _ importance: Importance, endpoint: String = "") {
    lanes[importance.rawValue].append(Waiting(entry: entry, endpoint: ExactText(endpoint)))
  }

  /// Takes out the waiting request that matches, if it still waits. It looks through all that wait, because
  /// requests are seldom canceled: when the worker stops, a user is disconnected, or an upload is not wanted
  /// any more.
  package mutating func remove(where matches: (Entry) -> Bool) -> Entry? {
    for lane in lanes.indices {
      if let index = lanes[lane].firstIndex(where: { matches($0.entry) }) {
        return lanes[lane].remove(at: index).entry
      }
    }
    return nil
  }

  /// Removes and returns all waiting requests.
  package mutating func removeAll() -> [Entry] {
    defer { lanes = lanes.map { _ in [] } }
    return lanes.flatMap { $0.map(\.entry) }
  }

  /// Starts no call of this kind before `moment`, as the upstream asked.
  package mutating func pause(_ endpoint: String = "", until moment: Int64) {
    let kind = ExactText(endpoint)
    pauses[kind] = max(pauses[kind] ?? 0, moment)
  }

  /// A started request ended.
  package mutating func finished(_ importance: Importance) {
    inFlight -= 1
    if importance == .background || importance == .listing { slowInFlight -= 1 }
    if importance == .upload { uploadsInFlight -= 1 }
  }

  /// What to do at `now`; a request that is started counts as in flight from now on.
  package mutating func next(now: Int64) -> Decision {
    pauses = pauses.filter { $0.value > now }
    if let refused = takePaused() { return refused }
    guard inFlight < limit else { return .idle }
    guard let (lane, index) = nextStartable() else { return pausedEnd }
    if let later = bucket.take(now: now) { return .wait(until: later) }
    let sharers = RequestQueue.sharers(of: lane)
    for sharer in sharers { passedOver[sharer] = 0 }
    for other in lanes.indices where other > lane && !sharers.contains(other) {
      passedOver[other] = lanes[other].isEmpty ? 0 : passedOver[other] + 1
    }
    inFlight += 1
    switch Importance(rawValue: lane) {
    case .send: isTurnOfOpen = true
    case .open: isTurnOfOpen = false
    case .background, .listing: slowInFlight += 1
    case .upload: uploadsInFlight += 1
    case .foreground, nil: break
    }
    return .start(lanes[lane].remove(at: index).entry)
  }

  /// Takes one of the service's own requests that a pause would keep waiting.
  private mutating func takePaused() -> Decision? {
    guard !pauses.isEmpty else { return nil }
    for lane in lanes.indices where !RequestQueue.ofClients.contains(lane) {
      if let index = lanes[lane].firstIndex(where: { pauses[$0.endpoint] != nil }) {
        let waiting = lanes[lane].remove(at: index)
        return .refuse(waiting.entry, until: pauses[waiting.endpoint] ?? 0)
      }
    }
    return nil
  }

  /// The lanes of requests for which clients wait.
  private static var ofClients: [Int] { [Importance.foreground.rawValue, Importance.listing.rawValue] }

  /// The request whose turn it is: that of the lane passed over most often, if that was often enough, else
  /// that of the most important lane. Of sends and requests for open views neither waits for more than one
  /// of the other, however many wait.
  private func nextStartable() -> (lane: Int, index: Int)? {
    let due = lanes.indices.filter { passedOver[$0] >= RequestQueue.mostPassedOver }
      .sorted { passedOver[$0] > passedOver[$1] }
    for lane in (due + Array(lanes.indices)).flatMap(inTurn) {
      guard !isFull(lane), let index = lanes[lane].firstIndex(where: { pauses[$0.endpoint] == nil }) else {
        continue
      }
      return (lane, index)
    }
    return nil
  }

  /// The lanes that take turns with this one, and itself.
  private static func sharers(of lane: Int) -> [Int] {
    let pair = [Importance.send.rawValue, Importance.open.rawValue]
    return pair.contains(lane) ? pair : [lane]
  }

  /// The lanes that take turns with this one, that whose turn it is first.
  private func inTurn(_ lane: Int) -> [Int] {
    let sharers = RequestQueue.sharers(of: lane)
    return isTurnOfOpen ? sharers.reversed() : sharers
  }

  /// Whether the requests of a lane have all slots that they may have.
  private func isFull(_ lane: Int) -> Bool {
    switch lane {
    case Importance.background.rawValue, Importance.listing.rawValue: limit > 1 && slowInFlight >= limit - 1
    case Importance.upload.rawValue: uploadsInFlight >= RequestQueue.uploadSlots(of: limit)
    default: false
    }
  }

  /// The most slots that uploads may have.
  package static func uploadSlots(of limit: Int) -> Int { max(1, limit / 2) }

  /// When the first waiting request may start after a pause.
  private var pausedEnd: Decision {
    let moments = lanes.joined().compactMap { pauses[$0.endpoint] }
    return moments.min().map { .wait(until: $0) } ?? .idle
  }
}
