import ChatModel

@testable import ChatCache

/// A channel as a small dense world: a few milliseconds with room for four messages each, and one mark per
/// position.
///
/// It knows the truth (`upstream`), what the cache stores (`stored`) and, position by position, what the
/// coverage should say. Its rules are written over single positions, without ranges, so that they share
/// nothing with the code under test. Beside and between them are positions that no message can have, so that
/// every segment has a position.
struct NaiveLine {
  enum Mark: Hashable { case covered, unverified, gap, tail }

  static let times: Int64 = 8
  static let messages: [Position] = (0..<times).flatMap { time in
    (0..<4).map { Position(createdAt: time * 10, messageID: $0) }
  }
  static let positions: [Position] = (0..<times).flatMap { time in
    (-1...4).map { Position(createdAt: time * 10, messageID: $0) } + [
      Position(createdAt: time * 10 + 5, messageID: 0)
    ]
  }

  var upstream: Set<Position> = []
  var stored: Set<Position> = []
  var marks = [Mark](repeating: .gap, count: positions.count)
  var isTailBegun = false

  /// The upstream's answer: the rows nearest the anchor, ties by id, cut by the limits, without `dropped`
  /// rows at the far side.
  func list(_ anchor: Listing.Anchor, older: Int, newer: Int, includesAnchor: Bool, dropped: Int)
    -> [Position]
  {
    let all = upstream.sorted()
    let side = { (position: Position) -> Int in
      switch anchor {
      case .newest: -1
      case .time(let time): position.createdAt < time ? -1 : position.createdAt > time ? 1 : 0
      case .message(let anchor): position < anchor ? -1 : position > anchor ? 1 : 0
      }
    }
    let at = includesAnchor ? all.filter { side($0) == 0 } : []
    var below = older > 0 ? all.filter { side($0) < 0 } : []
    var above = newer > 0 ? all.filter { side($0) > 0 } : []
    var rows: [Position]
    if newer == 0 {
      // A one-sided page counts the rows at its anchor.
      below = Array((below + at).suffix(older))
      rows = Array(below.dropFirst(below.count > dropped ? dropped : 0))
    } else if older == 0 {
      above = Array((at + above).prefix(newer))
      rows = Array(above.dropLast(above.count > dropped ? dropped : 0))
    } else {
      below = Array(below.suffix(older))
      above = Array(above.prefix(newer))
      rows = below.dropFirst(below.count > dropped ? dropped : 0) + at
      rows += above.dropLast(above.count > dropped ? dropped : 0)
    }
    return rows
  }

  /// Whether a listing of these rows proves everything about one position.
  static func proves(
    _ position: Position, _ anchor: Listing.Anchor, older: Int, newer: Int, includesAnchor: Bool,
    rows: [Position]
  ) -> Bool {
    let side = { (position: Position) -> Int in
      switch anchor {
      case .newest: -1
      case .time(let time): position.createdAt < time ? -1 : position.createdAt > time ? 1 : 0
      case .message(let anchor): position < anchor ? -1 : position > anchor ? 1 : 0
      }
    }
    let isByID = if case .message = anchor { true } else { false }
    let isTied = { (row: Position) -> Bool in
      if case .message(let anchor) = anchor { row.createdAt == anchor.createdAt } else { false }
    }
    let at = rows.filter { side($0) == 0 }.count
    let below = rows.filter { side($0) < 0 }
    let above = rows.filter { side($0) > 0 }
    let provesBelow = { (position: Position) -> Bool in
      if older == 0 { return false }
      if rows.isEmpty { return true }
      guard let far = below.min() else { return false }
      let isCut = below.count + at >= older
      if anchor == .newest, rows.allSatisfy({ $0 < position }) { return true }
      return isCut && !isTied(far) ? position.createdAt > far.createdAt : position >= far
    }
    let provesAbove = { (position: Position) -> Bool in
      if newer == 0 { return false }
      if rows.isEmpty { return true }
      guard let far = above.max() else { return false }
      let isCut = above.count + at >= newer
      return isCut && !isTied(far) ? position.createdAt < far.createdAt : position <= far
    }
    let isCutAt =
      !isByID && ((older > 0 && below.isEmpty && at >= older) || (newer > 0 && above.isEmpty && at >= newer))
    // A page that ends inside the anchor's millisecond may lack rows of it.
    let rowsAt = rows.filter { side($0) == 0 }
    let isBeyondRows = { (position: Position) -> Bool in
      guard !isByID, let low = rowsAt.min(), let high = rowsAt.max() else { return false }
      return (older > 0 && below.isEmpty && position < low) || (newer > 0 && above.isEmpty && position > high)
    }
    let provesAt = includesAnchor && (anchor == .newest || !isCutAt)
    switch side(position) {
    case -1: return provesBelow(position)
    case 1:
      // The two sides are one segment only if the anchor between them is proven.
      let isAnythingBelow = positions.contains { side($0) < 0 && provesBelow($0) }
      return provesAbove(position) && (provesAt || !isAnythingBelow)
    default: return provesAt && !isBeyondRows(position)
    }
  }

  /// The index of the newest position that the upstream's clock has surely reached; -1: none.
  var newestKnown: Int {
    if isTailBegun { return (marks.firstIndex(of: .tail) ?? marks.count) - 1 }
    return marks.lastIndex { $0 == .covered || $0 == .unverified } ?? -1
  }

  /// Stores a page: `claimed` positions are proven, other rows are merely stored.
  mutating func take(_ rows: [Position], claimed: [Int], reachesEnd: Bool) {
    for index in claimed {
      let position = NaiveLine.positions[index]
      if upstream.contains(position) { stored.insert(position) } else { stored.remove(position) }
    }
    stored.formUnion(rows)
    guard let top = claimed.last else { return }
    guard reachesEnd else {
      for index in claimed { marks[index] = .covered }
      // A claim that reaches into the tail makes the positions below it a gap.
      for index in marks.indices where marks[index] == .tail && index < top { marks[index] = .gap }
      return
    }
    let tailBegin = isTailBegun ? marks.firstIndex(of: .tail) ?? marks.count : 0
    let coveredTop = marks.lastIndex { $0 == .covered || $0 == .unverified } ?? -1
    for index in marks.indices where marks[index] == .tail && index < claimed[0] { marks[index] = .gap }
    for index in claimed {
      let isUpToRow = rows.max().map { NaiveLine.positions[index] <= $0 } ?? false
      marks[index] = isUpToRow || index <= coveredTop || index < tailBegin ? .covered : .tail
    }
    isTailBegun = true
  }

  /// The coverage's mark of each position.
  static func marks(of coverage: Coverage) -> [Mark] {
    positions.map { position in
      switch coverage.segment(at: position).content {
      case .covered(let isUnverified): isUnverified ? .unverified : .covered
      case .gap: .gap
      case .tail: .tail
      }
    }
  }
}
