/// How long the rest takes, judged by how fast the last of it went. A value: the moments are given (ms).
///
/// It looks back over a window, so that it follows a rate that changes, and says nothing where nothing was
/// gained in the whole of it.
struct TimeLeft: Sendable, Equatable {
  /// What can be said.
  enum Estimate: Sendable, Equatable {
    case unknown
    case seconds(Int)
    case nothing
  }

  /// How far it was at a moment.
  private struct Mark: Sendable, Equatable { let at: Int64, done: Int }

  /// How far it is looked back (ms).
  static let window: Int64 = 10_000
  /// Between two marks (ms): so there are never more than some forty.
  static let spacing: Int64 = 250
  /// The longest time that is told (s).
  static let longest = 99 * 3_600

  private var marks: [Mark] = []
  private var done = 0
  private var total: Int?

  /// How far it is; `total` is nil while nobody knows. What goes backwards is something new that is counted.
  mutating func note(done: Int, of total: Int?, at now: Int64) {
    if done < self.done || total == nil { marks = [] }
    self.done = done
    self.total = total
    guard total != nil else { return }
    let since = marks.last.map { now - $0.at } ?? TimeLeft.spacing
    if since >= TimeLeft.spacing { marks.append(Mark(at: now, done: done)) }
    // The newest mark outside the window stays: it says how far it was when the window begins.
    let outside = marks.count { $0.at <= now - TimeLeft.window }
    if outside > 1 { marks.removeFirst(outside - 1) }
  }

  /// How many moments are remembered.
  var markCount: Int { marks.count }

  /// How long the rest takes.
  func estimate(at now: Int64) -> Estimate {
    guard let total else { return .unknown }
    guard done < total else { return .nothing }
    guard let first = marks.first, done > first.done, now > first.at else { return .unknown }
    let each = Double(now - first.at) / 1_000 / Double(done - first.done)
    return .seconds(Int(min((Double(total - done) * each).rounded(.up), Double(TimeLeft.longest))))
  }
}

extension TimeLeft.Estimate: CustomStringConvertible {
  /// As people read it; minutes where seconds say too much.
  var description: String {
    switch self {
    case .unknown: "time left unknown"
    case .seconds(let seconds) where seconds > 120: "about \((seconds + 59) / 60) min left"
    case .seconds(let seconds): "about \(seconds) s left"
    case .nothing: "nothing left"
    }
  }
}
