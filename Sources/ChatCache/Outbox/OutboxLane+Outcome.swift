import ChatModel

extension OutboxLane {
  /// How a job ended.
  package enum Outcome: Hashable, Sendable {
    /// The upstream did the job. For a send or a look: the id of the sent message.
    case success(message: Int64?)
    /// The upstream has the request already, and does not say which message it became.
    case duplicate
    /// The upstream understood and refused (B40).
    case rejection(code: String)
    /// The upstream takes no requests until that moment, ms. Nothing was done.
    case wait(until: Int64)
    /// The link is at fault; nothing was done.
    case linkFault(code: String)
    /// The upstream may have done the job (B39).
    case uncertain
    /// A look did not find the message. For a deletion: the message is already gone.
    case absent
  }

  /// Changes the row of a job that ended. `random` spreads the next try, and `policy` bounds it.
  ///
  /// A late answer counts only if it is a success, which turns even a failed message into a sent one.
  package mutating func finish(
    _ id: Int64, _ job: Job, _ outcome: Outcome, now: Int64, random: UInt64,
    policy: OutboxPolicy = OutboxPolicy()
  ) -> [Notice] {
    guard let row = row(id) else { return [] }
    let later = now + policy.delay(attempt: max(row.attempts, 1), random: random)
    var notices: [Notice] = []
    switch job {
    case .upload:
      guard row.upload == .running else { return [] }
      notices = finishUpload(row, outcome, now: now, later: later)
    case .deleteSent:
      guard row.state == .inFlight else { return [] }
      notices = finishDelete(row, outcome, now: now, later: later)
    case .send, .look:
      if case .success(let message) = outcome {
        notices = confirm(id, message: message, now: now)
      } else if job == .send ? row.state == .inFlight : row.state == .uncertain {
        notices =
          job != .send && outcome == .uncertain
          ? finishLookWithoutAnswer(row, now: now, later: later)
          : finishSend(row, outcome, now: now, later: later, policy)
      }
    }
    holdOrRelease(now: now)
    return notices
  }

  /// The row was sent as that message, as an answer or a listing has shown. May be called in any state (B38).
  package mutating func confirm(_ id: Int64, message: Int64?, now: Int64) -> [Notice] {
    guard let row = row(id) else { return [] }
    if row.kind.isMessage, row.isCancelWanted || row.state == .canceled, let message {
      // The user canceled too late: the message is to be deleted upstream.
      guard row.target == nil else { return [] }
      change(id) {
        $0.isCancelWanted = true
        $0.target = message
        $0.state = .waiting
        $0.nextTryAt = now
        $0.expiresAt = max($0.expiresAt, now + Limits.pendingMilliseconds)
      }
      return []
    }
    for follower in rows where follower.follows == id {
      change(follower.id) {
        $0.follows = nil
        $0.target = message
      }
    }
    drop(id)
    holdOrRelease(now: now)
    return [.succeeded(id, message: message)]
  }

  private mutating func finishSend(
    _ row: OutboxRow, _ outcome: Outcome, now: Int64, later: Int64, _ policy: OutboxPolicy
  ) -> [Notice] {
    switch outcome {
    case .success: return []
    case .duplicate where !row.kind.isMessage:
      return confirm(row.id, message: row.target, now: now)
    case .duplicate:
      change(row.id) {
        $0.state = .uncertain
        $0.mayHaveArrived = true
        $0.errorCode = OutboxRow.existsAlready
        $0.nextTryAt = now
      }
      return []
    case .uncertain:
      change(row.id) {
        $0.state = .uncertain
        $0.mayHaveArrived = true
        $0.nextTryAt = later
      }
      return []
    case .rejection(let code):
      return refuse(row, code: code, now: now)
    case .wait(let until):
      return putBack(row, code: nil, nextTryAt: max(until, now), now: now)
    case .linkFault(let code):
      return putBack(row, code: code, nextTryAt: later, now: now)
    case .absent:
      return finishLook(row, now: now, later: later, policy)
    }
  }

  /// A refused row fails. If an earlier try may have arrived, one look decides, because the refusal may only
  /// concern the repetition.
  private mutating func refuse(_ row: OutboxRow, code: String, now: Int64) -> [Notice] {
    guard row.mayHaveArrived, row.kind.isMessage else {
      return row.isCancelWanted ? cancelNow(row.id, now: now) : end(row.id, code: code, now: now)
    }
    change(row.id) {
      $0.state = .uncertain
      if !$0.isCancelWanted { $0.errorCode = code }
      $0.nextTryAt = now
    }
    return []
  }

  /// The upstream did nothing: the row waits again, or stays uncertain if an earlier try may have arrived.
  private mutating func putBack(
    _ row: OutboxRow, code: String?, nextTryAt: Int64, now: Int64
  ) -> [Notice] {
    if row.mayHaveArrived {
      change(row.id) {
        $0.state = .uncertain
        $0.nextTryAt = nextTryAt
      }
      return []
    }
    if row.isCancelWanted { return cancelNow(row.id, now: now) }
    change(row.id) {
      $0.state = .waiting
      $0.errorCode = code
      $0.nextTryAt = nextTryAt
    }
    return mergeFollowers(of: row.id) + expire(now: now)
  }

  /// A look that could not read everything proves nothing. It is repeated after growing waits, and given up
  /// an hour after the row has expired.
  private mutating func finishLookWithoutAnswer(_ row: OutboxRow, now: Int64, later: Int64) -> [Notice] {
    if row.expiresAt + Limits.lookBeyondMilliseconds <= now {
      return row.isCancelWanted
        ? cancelNow(row.id, now: now) : end(row.id, code: OutboxRow.outOfTime, now: now)
    }
    change(row.id) {
      $0.attempts += 1
      $0.nextTryAt = later
    }
    return []
  }

  /// A look found nothing up to `position`, so the next look begins there.
  mutating func searched(_ id: Int64, through position: Position) {
    guard row(id)?.state == .uncertain else { return }
    change(id) { $0.anchor = max($0.anchor ?? .start, position) }
  }

  private mutating func finishLook(
    _ row: OutboxRow, now: Int64, later: Int64, _ policy: OutboxPolicy
  ) -> [Notice] {
    if row.isKnownUpstream, !row.isCancelWanted {
      // The upstream has the message, but no listing shows it yet. Looks go on until the row's lifetime ends.
      change(row.id) {
        $0.attempts += 1
        $0.nextTryAt = later
      }
      return []
    }
    if let code = row.errorCode, !row.isCancelWanted {
      if row.absences + 1 >= policy.looks { change(row.id) { $0.mayHaveArrived = false } }
      return end(row.id, code: code, now: now)
    }
    if row.absences + 1 < policy.looks {
      change(row.id) {
        $0.absences += 1
        $0.nextTryAt = now + policy.uncertainGrace
      }
      return []
    }
    if row.isCancelWanted {
      if !row.isKnownUpstream { change(row.id) { $0.mayHaveArrived = false } }
      return cancelNow(row.id, now: now)
    }
    change(row.id) {
      // The first repetition is sent at once; each later one waits longer.
      $0.waitAfresh(now: now)
      $0.attempts = row.attempts
      if row.attempts > 1 { $0.nextTryAt = later }
    }
    return mergeFollowers(of: row.id)
  }

  private mutating func finishUpload(
    _ row: OutboxRow, _ outcome: Outcome, now: Int64, later: Int64
  ) -> [Notice] {
    switch outcome {
    case .success:
      change(row.id) {
        $0.upload = .done
        if $0.state == .waiting {
          $0.attempts = 0
          $0.errorCode = nil
          $0.nextTryAt = min($0.nextTryAt, now)
        }
      }
    case .rejection(let code):
      change(row.id) { $0.upload = .needed }
      return row.state.isPending ? end(row.id, code: code, now: now) : []
    case .wait(let until):
      change(row.id) {
        $0.upload = .needed
        $0.nextTryAt = max(until, now)
      }
    case .linkFault, .uncertain, .duplicate, .absent:
      // An upload without a url in its answer cannot be used: the file is uploaded again.
      change(row.id) {
        $0.upload = .needed
        $0.attempts += 1
        $0.nextTryAt = later
        if case .linkFault(let code) = outcome, $0.state == .waiting { $0.errorCode = code }
      }
    }
    return []
  }

  private mutating func finishDelete(
    _ row: OutboxRow, _ outcome: Outcome, now: Int64, later: Int64
  ) -> [Notice] {
    switch outcome {
    case .success, .duplicate, .absent:
      return cancelNow(row.id, now: now)
    case .rejection:
      // The message was sent, and deleting it has failed, so it stays.
      change(row.id) { $0.isCancelWanted = false }
      let merged = mergeFollowers(of: row.id)
      drop(row.id)
      return merged + [.succeeded(row.id, message: row.target)]
    case .wait(let until):
      change(row.id) {
        $0.state = .waiting
        $0.nextTryAt = max(until, now)
      }
    case .linkFault, .uncertain:
      change(row.id) {
        $0.state = .waiting
        $0.nextTryAt = later
      }
    }
    return []
  }

  /// The row will not be sent. A message stays as failed; a change is deleted. `isLast`: no other row ends
  /// right after it, so the rows behind are held or released now.
  mutating func end(_ id: Int64, code: String, now: Int64, isLast: Bool = true) -> [Notice] {
    guard let row = row(id) else { return [] }
    defer { if isLast { holdOrRelease(now: now) } }
    let merged = mergeFollowers(of: id)
    guard row.kind.isMessage else {
      drop(id)
      return merged + [.dropped(id, code: code)]
    }
    change(id) {
      $0.state = .failed
      $0.errorCode = code
      $0.absences = 0
    }
    return merged + [.failed(id, code: code)]
  }

  mutating func cancelNow(_ id: Int64, now: Int64, isLast: Bool = true) -> [Notice] {
    defer { if isLast { holdOrRelease(now: now) } }
    let merged = mergeFollowers(of: id)
    change(id) {
      $0.state = .canceled
      $0.isCancelWanted = false
      $0.errorCode = nil
      $0.absences = 0
    }
    return merged + [.canceled(id)]
  }

  /// Merges the edits that wait for the message's id into its row, because its send is no longer under way.
  mutating func mergeFollowers(of id: Int64) -> [Notice] {
    let followers = rows.filter { $0.follows == id }
    for follower in followers { drop(follower.id) }
    return followers.map { .merged(from: $0.id, to: id) }
  }
}

extension OutboxRow {
  /// The upstream's code for a request id that it has seen.
  package static let existsAlready = "400202"

  /// Whether the upstream said that it has this request, without saying which message it became.
  var isKnownUpstream: Bool { state == .uncertain && errorCode == OutboxRow.existsAlready }

  /// Resets the row's tries. The anchor stays, because an earlier try may still arrive after that position.
  mutating func waitAfresh(now: Int64) {
    state = .waiting
    attempts = 0
    absences = 0
    dispatchedAt = nil
    mayHaveArrived = false
    errorCode = nil
    nextTryAt = now
  }
}
