import JSON
import MicroHTTP
import Platform

/// The server's faults, rate limits and missing capabilities, set at `/_faults` as
///
///     {"seed": 1,
///      "faults": [{"kind": "status", "path": "/v3/users*", "count": 3, "probability": 0.5, "status": 503}],
///      "rate_limits": [{"path": "/v3/*/messages", "method": "POST", "requests": 5, "seconds": 1}],
///      "capabilities": {"changelogs": false, "reply_listing": false, "thread_listing": false,
///                       "dedup": "error", "uploads": false, "request_ids": false}}
///
/// The first fault whose path pattern matches, that has uses left and that the seeded dice choose is applied,
/// and logged. `GET` shows what is set, `DELETE` removes all of it.
final class FaultDesk: Sendable {
  private struct State {
    var faults: [Fault] = []
    var limits: [RateLimit] = []
    var capabilities = Capabilities()
    var shown = Value.object(["faults": .array([])])
    var dice: UInt64 = 1
    var isCutOff = false
  }

  private static let faultLimit = 100
  private let state = Guarded(State())
  private let clock: Clock

  init(clock: Clock) { self.clock = clock }

  var capabilities: Capabilities { state.withLock { $0.capabilities } }
  var shown: String { state.withLock { $0.shown.text } }

  /// Whether the network to this server is gone: every request is cut and no webhook leaves.
  var isCutOff: Bool {
    get { state.withLock { $0.isCutOff } }
    set { state.withLock { $0.isCutOff = newValue } }
  }

  /// Replaces everything set.
  func set(_ value: Value) throws {
    var new = State()
    new.faults = try (value["faults"]?.items ?? []).map(Fault.init)
    new.limits = try (value["rate_limits"]?.items ?? []).map(RateLimit.init)
    guard new.faults.count <= FaultDesk.faultLimit, new.limits.count <= FaultDesk.faultLimit else {
      throw Refusal.range("faults")
    }
    let wanted = value["capabilities"]
    new.capabilities.areChangelogsOn = wanted?["changelogs"] != .bool(false)
    new.capabilities.areReplyListingsOn = wanted?["reply_listing"] != .bool(false)
    new.capabilities.areThreadListingsOn = wanted?["thread_listing"] != .bool(false)
    new.capabilities.areSeparateUploadsOn = wanted?["uploads"] != .bool(false)
    new.capabilities.areRequestIDsShown = wanted?["request_ids"] != .bool(false)
    if let text = wanted?["dedup"]?.string {
      guard let duplicates = Capabilities.Duplicates(rawValue: text) else { throw Refusal.invalid("dedup") }
      new.capabilities.duplicates = duplicates
    }
    new.shown = value
    new.dice = UInt64(bitPattern: value["seed"]?.integer ?? 1)
    let made = new
    state.withLock { state in
      let isCutOff = state.isCutOff
      state = made
      state.isCutOff = isCutOff
    }
  }

  func clear() {
    state.withLock { state in
      let isCutOff = state.isCutOff
      state = State()
      state.isCutOff = isCutOff
    }
  }

  /// The fault among `kinds` that hits this request now. It is logged.
  func take(_ kinds: Set<Fault.Kind>, path: String, method: Method = .post) -> Fault? {
    let taken: Fault? = state.withLock { state in
      for index in state.faults.indices {
        let fault = state.faults[index]
        guard kinds.contains(fault.kind), fault.count != 0, Fault.matches(fault.path, path),
          fault.method == nil || fault.method == "\(method.name)",
          FaultDesk.roll(&state.dice) < fault.probability
        else { continue }
        state.faults[index].count = fault.count.map { $0 - 1 }
        return fault
      }
      return nil
    }
    if let taken { Log.line(.info, "fault", ["kind": .text(taken.kind.rawValue), "path": .text(path)]) }
    return taken
  }

  /// How far back an answer may have to go, for the faults that are set (ms).
  var reachBack: Int64 {
    state.withLock { state in
      state.faults.filter { $0.kind == .stalePage }.map(\.milliseconds).max() ?? 0
    }
  }

  /// New dice; they follow from the seed.
  func dice() -> UInt64 {
    state.withLock { state in
      _ = FaultDesk.roll(&state.dice)
      return state.dice
    }
  }

  /// Counts a request against the first rate limit that it falls under.
  func count(_ method: String, _ path: String) -> RateReading? {
    let now = clock.wallMilliseconds()
    let reading: RateReading? = state.withLock { state in
      let index = state.limits.firstIndex { limit in
        (limit.method ?? method) == method && Fault.matches(limit.path, path)
      }
      return index.map { state.limits[$0].take(at: now) }
    }
    if reading?.isOver == true {
      Log.line(.info, "rate_limited", ["method": .text(method), "path": .text(path)])
    }
    return reading
  }

  /// SplitMix64, as a number from 0 to below 1.
  private static func roll(_ state: inout UInt64) -> Double {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return Double((mixed ^ (mixed >> 31)) >> 11) / 9_007_199_254_740_992
  }
}
