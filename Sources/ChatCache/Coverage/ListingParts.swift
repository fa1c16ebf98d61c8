import ChatModel

extension MessageListing {
  /// The listing as several smaller ones, nearest the anchor first. Together they have its rows, and prove
  /// what it proves.
  ///
  /// A part before the last proves everything up to its far row, as a short page does; that row is the next
  /// part's anchor. No millisecond is divided. A listing that has its rows out of order, or proves nothing,
  /// is its only part.
  package func parts(ofRows most: Int) -> [MessageListing] {
    guard rows.count > most, isOneSided, isWhole, isEndRead, breaks.isEmpty, isInOrder,
      window.listing(rows.map(\.position)).claim != nil
    else { return [self] }
    let outward = isOlder ? rows.reversed() : rows
    let size = outward.count.dividedRoundingUp(by: outward.count.dividedRoundingUp(by: most))
    let isCut = rows.count >= window.older + window.newer
    var parts: [MessageListing] = []
    var begin = 0
    while begin < outward.count {
      var end = min(begin + size, outward.count)
      while end < outward.count, outward[end - 1].createdAt == outward[end].createdAt { end += 1 }
      let isLast = end == outward.count
      let limit = end - begin + (isLast && isCut ? 0 : 1)
      var part = self
      part.window.older = isOlder ? limit : 0
      part.window.newer = isOlder ? 0 : limit
      if begin > 0 {
        part.window.anchor = .message(outward[begin - 1].position)
        part.window.includesAnchor = false
      }
      part.rows = isOlder ? outward[begin..<end].reversed() : Array(outward[begin..<end])
      parts.append(part)
      begin = end
    }
    return parts
  }

  private var isOlder: Bool { window.newer == 0 }
  private var isOneSided: Bool { window.newer == 0 || window.older == 0 }

  /// Whether the rows are in order and on the side of the anchor that was asked for.
  private var isInOrder: Bool {
    guard let first = rows.first?.position, let last = rows.last?.position,
      zip(rows, rows.dropFirst()).allSatisfy({ $0.position < $1.position })
    else { return false }
    switch window.anchor {
    case .newest: return true
    case .time(let time): return isOlder ? last.createdAt <= time : first.createdAt >= time
    case .message(let message): return isOlder ? last <= message : first >= message
    }
  }
}

extension Int {
  fileprivate func dividedRoundingUp(by divisor: Int) -> Int { (self + divisor - 1) / divisor }
}
