/// Estimates the time left from the recent rate. A value: the caller passes the times (ms).
///
/// Only the rate within a window counts, so that the estimate follows a changing rate. Without any progress
/// in the window there is no estimate.
struct TimeLeft: Sendable, Equatable {
  /// The estimate of the time left.
  enum Estimate: Sendable, Equatable {
    case unknown
    case seconds(Int)
    case nothing
  }

  /// The number of items done at a time.
  private struct Mark: Sendable, Equatable { let at: Int64, done: Int }

  /// The length of the window (ms).
  static let window: Int64 = 10_000
  /// The interval between two marks (ms), so that there are never more than about forty.
  static let spacing: Int64 = 250
  /// The longest estimate (s).
  static let longest = 99 * 3_600

  private var marks: [Mark] = []
  private var done = 0
  private var total: Int?

  /// Notes the progress. `total` is nil while it is unknown. If `done` falls, something new is being counted.
  mutating func note(done: Int, of total: Int?, at now: Int64) {
    if done < self.done || total == nil { marks = [] }
    self.done = done
    self.total = total
    guard total != nil else { return }
    let since = marks.last.map { now - $0.at } ?? TimeLeft.spacing
    if since >= TimeLeft.spacing { marks.append(Mark(at: now, done: done)) }
    // The newest mark outside the window stays: it has the progress at the window's beginning.
    let outside = marks.count { $0.at <= now - TimeLeft.window }
    if outside > 1 { marks.removeFirst(outside - 1) }
  }

  /// The number of marks.
  var markCount: Int { marks.count }

  /// The estimate at `now`.
  func estimate(at now: Int64) -> Estimate {
    guard let total else { return .unknown }
    guard done < total else { return .nothing }
    guard let first = marks.first, done > first.done, now > first.at else { return .unknown }
    let each = Double(now - first.at) / 1_000 / Double(done - first.done)
    return .seconds(Int(min((Double(total - done) * each).rounded(.up), Double(TimeLeft.longest))))
  }
}

extension TimeLeft.Estimate: CustomStringConvertible {
  /// The estimate for people: in minutes if it is long.
  var description: String {
    switch self {
    case .unknown: "time left unknown"
    case .seconds(let seconds) where seconds > 120: "about \((seconds + 59) / 60) min left"
    case .seconds(let seconds): "about \(seconds) s left"
    case .nothing: "nothing left"
    }
  }
}
