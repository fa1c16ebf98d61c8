import ChatModel

@testable import ChatCache

extension OutboxWorld {
  /// The rule that is broken after the last step; nil: none is.
  func brokenRule() -> String? {
    if let complaint { return complaint }
    let underWay = lane.rows.filter { $0.state == .inFlight }
    if underWay.filter({ $0.kind.isOrdered }).count > 1 { return "two messages are under way" }
    if underWay.filter({ !$0.kind.isOrdered }).count > 1 { return "two changes are under way" }
    if let sent = underWay.first(where: { $0.kind.isOrdered }), sent.id != lane.head?.id {
      return "what is under way is not the head"
    }
    for (id, request) in accepted {
      if (lane.row(id) == nil) != (ends[id] != nil) { return "row \(id) is lost" }
      if (arrived[request] ?? []).count > 1 { return "row \(id) was sent twice" }
      if case .succeeded(_, let message) = ends[id], kinds[id]?.isMessage == true,
        message != arrived[request]?.last
      {
        return "row \(id) succeeded as another message"
      }
    }
    return withoutNextTry()
  }

  /// A waiting row must have a time of its next try.
  private func withoutNextTry() -> String? {
    for row in lane.rows where row.state == .held && lane.blocker(of: row.id)?.state != .failed {
      return "row \(row.id) is held by nothing"
    }
    guard let head = lane.head, head.state == .waiting || head.state == .uncertain, head.upload != .running
    else { return nil }
    let jobs = lane.jobs(now: head.nextTryAt)
    return jobs.contains { $0.row == head.id } ? nil : "the head has a next try at which nothing is tried"
  }

  mutating func checkOrder(_ row: OutboxRow, _ job: OutboxLane.Job) {
    guard row.kind.isOrdered, job != .upload else { return }
    if lane.rows.contains(where: { $0.rank < row.rank && $0.kind.isOrdered && $0.state.isPending }) {
      complaint = "row \(row.id) overtakes another"
    }
    if lane.failedBlocker(before: row.rank) != nil, row.state == .waiting, row.target == nil {
      complaint = "row \(row.id) goes though it is to be held"
    }
  }

  /// The upstream heals, and every row must end by itself (B43). Nil: all did, correctly.
  mutating func drain() -> String? {
    isUp = true
    isCalm = true
    lane.linkRecovered(now: now)
    for _ in 0..<2000 {
      while !calls.isEmpty { answer(calls.removeFirst()) }
      if let broken = brokenRule() { return broken }
      guard let next = lane.nextTryAt else { break }
      now = max(now, next)
      _ = work()
    }
    // A row that was sent again after an uncertain send also waits behind a failed message.
    if let stuck = lane.rows.first(where: {
      $0.state.isPending && $0.state != .held && lane.failedBlocker(before: $0.rank) == nil
    }) {
      return "row \(stuck.id) never came to an end"
    }
    for (id, request) in accepted where kinds[id]?.isMessage == true {
      let alive = (arrived[request] ?? []).filter { !deleted.contains($0) }
      switch (lane.row(id)?.status, ends[id]) {
      case (nil, .succeeded): if alive.isEmpty { return "row \(id) succeeded and is not there" }
      case (.canceled, _), (.failed, _), (.pending, _):
        if !alive.isEmpty { return "row \(id) is \(String(describing: lane.row(id)?.status)) and there" }
      case (nil, .removed): if !alive.isEmpty { return "row \(id) was removed and is there" }
      default: return "row \(id) ended as \(String(describing: ends[id]))"
      }
    }
    return nil
  }
}
