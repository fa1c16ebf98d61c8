import ChatModel

extension OutboxLane {
  /// How an edit or a deletion of an unsent message is applied (B46).
  package enum Reach: Hashable, Sendable {
    /// The row is not under way and is changed itself.
    case row
    /// The row is under way: the change is a row of its own, which follows it.
    case follows(Int64)
  }

  /// Takes in a row whose request id is new. A read mark replaces those that wait (B42).
  package mutating func accept(_ row: OutboxRow, at rank: Int64? = nil, now: Int64) -> [Notice] {
    var notices: [Notice] = []
    var row = row
    row.rank = rank ?? max(row.rank, lastRank + 1)
    if row.kind == .read {
      for old in rows where old.kind == .read && old.state == .waiting {
        drop(old.id)
        notices.append(.dropped(old.id, code: OutboxRow.overtaken))
      }
    }
    insert(row)
    holdOrRelease(now: now)
    return notices + [.pendingCreated(row.id)]
  }

  /// Cancels a message (B44): at once if it is neither in flight nor uncertain, else when the answer to its
  /// send is known. False: the row is no pending message.
  package mutating func cancel(_ id: Int64, now: Int64) -> (isCanceled: Bool, notices: [Notice]) {
    guard let row = row(id), row.kind.isMessage, row.state.isPending else { return (false, []) }
    if row.isCancelWanted { return (true, []) }
    guard row.state == .inFlight || row.state == .uncertain else { return (true, cancelNow(id, now: now)) }
    change(id) { $0.isCancelWanted = true }
    return (true, [.canceled(id)])
  }

  /// Sends a failed or canceled message again, at the end of the lane, with a new lifetime (B41). If it may
  /// have arrived, it is looked for first (B39). `tryAt`: the moment of the first try, if not `now`.
  /// False: the row is neither failed nor canceled, or its message was deleted upstream.
  package mutating func resend(
    _ id: Int64, now: Int64, lifetime: Int64 = Limits.pendingMilliseconds, tryAt: Int64? = nil,
    isLast: Bool = true
  ) -> (isResent: Bool, notices: [Notice]) {
    guard let row = row(id), row.state == .failed || row.state == .canceled, row.target == nil else {
      return (false, [])
    }
    let rank = lastRank + 1
    change(id) {
      $0.waitAfresh(now: tryAt ?? now)
      if row.mayHaveArrived {
        $0.state = .uncertain
        $0.mayHaveArrived = true
      }
      $0.rank = rank
      $0.acceptedAt = now
      $0.expiresAt = now + lifetime
    }
    if isLast { holdOrRelease(now: now) }
    return (true, [.resendStarted(id)])
  }

  /// Sends all failed messages again, in their order (B44).
  package mutating func resendFailed(
    now: Int64, lifetime: Int64 = Limits.pendingMilliseconds, tryAt: Int64? = nil
  ) -> [Notice] {
    let notices = rows.filter { $0.state == .failed }
      .flatMap { resend($0.id, now: now, lifetime: lifetime, tryAt: tryAt, isLast: false).notices }
    holdOrRelease(now: now)
    return notices
  }

  /// Deletes the row of a failed or canceled message (B44). False: it is neither.
  package mutating func remove(_ id: Int64, now: Int64) -> (isRemoved: Bool, notices: [Notice]) {
    guard let row = row(id), row.state == .failed || row.state == .canceled else { return (false, []) }
    drop(id)
    holdOrRelease(now: now)
    return (true, [.removed(id)])
  }

  /// How to edit the unsent message `id`; nil: there is no such message, or its cancellation is pending.
  package func reach(ofEdit id: Int64) -> Reach? {
    guard let row = row(id), row.kind.isMessage, row.status != .canceled || row.state == .canceled else {
      return nil
    }
    return row.state == .inFlight || row.state == .uncertain ? .follows(id) : .row
  }

  /// Fails expired rows. A message that may have arrived is looked for once first (B41).
  package mutating func expire(now: Int64) -> [Notice] {
    var notices: [Notice] = []
    for row in rows where row.expiresAt <= now {
      switch row.state {
      case .waiting where row.isCancelWanted, .uncertain where row.isCancelWanted: continue
      case .waiting, .held: notices += end(row.id, code: OutboxRow.outOfTime, now: now, isLast: false)
      case .uncertain where row.kind.isMessage && (row.errorCode == nil || row.isKnownUpstream):
        change(row.id) {
          $0.errorCode = OutboxRow.outOfTime
          $0.nextTryAt = min($0.nextTryAt, now)
        }
      case .uncertain where !row.kind.isMessage:
        notices += end(row.id, code: OutboxRow.outOfTime, now: now, isLast: false)
      default: continue
      }
    }
    if !notices.isEmpty { holdOrRelease(now: now) }
    return notices
  }

  /// Fails all pending rows with `code`, because the user lost the channel (B69).
  package mutating func failAll(code: String, now: Int64) -> [Notice] {
    let notices = rows.filter { $0.state.isPending }.flatMap { row in
      if row.isUnanswered { change(row.id) { $0.mayHaveArrived = true } }
      return row.isCancelWanted
        ? cancelNow(row.id, now: now, isLast: false) : end(row.id, code: code, now: now, isLast: false)
    }
    holdOrRelease(now: now)
    return notices
  }

  /// Makes tries due that lie more than `longest` ahead, because a clock that ran ahead set them (B43).
  package mutating func clockWentBack(now: Int64, longest: Int64) {
    for row in rows where row.state.isPending && row.nextTryAt > now + longest {
      change(row.id) { $0.nextTryAt = now }
    }
  }

  /// Called after a start or a failed commit: rows in flight may have arrived (B39). `isRestored`: so may
  /// messages that have waited since the backup was made (B65).
  package mutating func recover(now: Int64, isRestored: Bool = false) {
    for row in rows {
      change(row.id) {
        if $0.upload == .running { $0.upload = .needed }
        guard $0.state == .inFlight || (isRestored && $0.state == .waiting && $0.kind.isMessage) else {
          return
        }
        if $0.isCancelWanted, $0.target != nil {
          $0.state = .waiting
        } else {
          $0.state = .uncertain
          $0.mayHaveArrived = true
        }
        $0.nextTryAt = now
      }
    }
  }

  /// Makes uploads due that are marked as running, because no file of the lane is being uploaded now.
  mutating func recoverUploads(now: Int64) {
    for row in rows where row.upload == .running {
      change(row.id) {
        $0.upload = .needed
        $0.nextTryAt = min($0.nextTryAt, now)
      }
    }
  }

  /// Makes the rows due that waited for the link, because the upstream can be reached again (B40, B43).
  package mutating func linkRecovered(now: Int64) {
    for row in rows where row.errorCode != nil || row.state == .uncertain {
      guard row.state == .waiting || (row.state == .uncertain && row.absences == 0) else { continue }
      change(row.id) { $0.nextTryAt = min($0.nextTryAt, now) }
    }
  }
}

extension OutboxRow {
  /// The code of a read mark that a later one made needless.
  package static let overtaken = "overtaken"
}
