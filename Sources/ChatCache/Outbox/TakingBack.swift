import ChatModel
import JSON

// A user's operations on unsent rows: cancel, delete, resend.

/// The result of removing an unsent row.
package enum TakenBack: Sendable, Hashable {
  /// The message had not been sent. It is canceled and its row stays, with that status.
  case canceled
  /// The row is gone: it was a failed or canceled message, or a change that waited.
  case removed
  /// The row is a change that is being sent, which cannot be stopped.
  case underWay
}

extension CacheWriter {
  /// Cancels a pending message, or deletes an ended message or a waiting change (B44). Nil: there is no row.
  package func takeBack(_ request: RequestID, in laneKey: OutboxLaneKey) throws -> TakenBack? {
    let step = try reader.laneStep(laneKey, row: try reader.row(of: request, in: laneKey))
    guard let row = step.row(request) else { return nil }
    let moment = try outboxMoment()
    if !row.kind.isMessage {
      guard row.state == .waiting || row.state == .held, !row.mayHaveArrived else { return .underWay }
      try changeLane(laneKey, from: step) { $0.withdraw(row.id, now: moment) }
      return .removed
    }
    var isRemoved = false
    try changeLane(laneKey, from: step) { lane in
      let removal = lane.remove(row.id, now: moment)
      isRemoved = removal.isRemoved
      return isRemoved ? removal.notices : lane.cancel(row.id, now: moment).notices
    }
    return isRemoved ? .removed : .canceled
  }

  /// Sends a failed or canceled message again, if the user may still send there (B44, B67). False: the row
  /// cannot be resent; nil: there is no row.
  package func resend(
    _ request: RequestID, of user: UserID, in laneKey: OutboxLaneKey, isAdmin: Bool, _ policy: OutboxPolicy
  ) throws -> Bool? {
    let step = try reader.laneStep(laneKey, row: try reader.row(of: request, in: laneKey))
    guard let row = step.row(request) else { return nil }
    guard row.kind.isMessage, row.state == .failed || row.state == .canceled else { return false }
    try checkSending([row], of: user, in: laneKey, isAdmin: isAdmin)
    let moment = try outboxMoment()
    var isResent = false
    try changeLane(laneKey, from: step) {
      let outcome = $0.resend(row.id, now: moment, lifetime: policy.pendingLifetime, tryAt: now)
      isResent = outcome.isResent
      return outcome.notices
    }
    return isResent
  }

  /// Sends all failed messages of the lane again, in their order. Returns their number.
  package func resendFailed(
    of user: UserID, in laneKey: OutboxLaneKey, isAdmin: Bool, _ policy: OutboxPolicy
  ) throws -> Int {
    let ended = try reader.endedLane(laneKey)
    try checkSending(ended.rows.filter { $0.state == .failed }, of: user, in: laneKey, isAdmin: isAdmin)
    let moment = try outboxMoment()
    return try changeLane(laneKey, from: ended) {
      $0.resendFailed(now: moment, lifetime: policy.pendingLifetime, tryAt: now)
    }.count
  }

  /// Deletes the lane's failed and canceled messages, or only the one with that request id, and returns their
  /// request ids (B44).
  package func removeFailed(in laneKey: OutboxLaneKey, named name: String? = nil) throws -> [RequestID] {
    let moment = try outboxMoment()
    var removed: [RequestID] = []
    try changeLane(laneKey, from: try reader.endedLane(laneKey)) { lane in
      var notices: [OutboxLane.Notice] = []
      for row in lane.rows where row.kind.isMessage && (name.map { $0 == row.requestID.text } ?? true) {
        let removal = lane.remove(row.id, now: moment)
        notices += removal.notices
        if removal.isRemoved { removed.append(row.requestID) }
      }
      return notices
    }
    return removed
  }

  /// Checks that the user may send these messages now.
  private func checkSending(
    _ rows: [OutboxRow], of user: UserID, in laneKey: OutboxLaneKey, isAdmin: Bool
  ) throws {
    guard let view = try reader.view(of: laneKey.channel, for: laneKey.user) else {
      throw SendingDenial.channelNotFound
    }
    try reader.checkRights(of: SendingRights(kind: .message, isAdmin: isAdmin), view, user)
    guard !isAdmin else { return }
    for row in rows where try reader.isAdminMessage(row.id) { throw SendingDenial.notAllowed(.adminOnly) }
  }
}

extension CacheReader {
  fileprivate func isAdminMessage(_ id: Int64) throws -> Bool {
    guard let params = try content(ofUnsent: id)?.params else { return false }
    return try params.withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) { $0["type"]?.string == "admin" }
    }
  }
}

extension OutboxLane {
  /// Deletes a change that was never sent.
  mutating func withdraw(_ id: Int64, now: Int64) -> [Notice] {
    drop(id)
    holdOrRelease(now: now)
    return [.dropped(id, code: OutboxRow.withdrawn)]
  }
}

extension OutboxRow {
  /// The code of a change that its user took back before it was sent.
  package static let withdrawn = "withdrawn"
}
