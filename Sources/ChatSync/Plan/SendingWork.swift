import ChatCache
import ChatModel

// Sending (B30, B40, B43): a lane has a turn when its next try is due. The lane that was due first goes
// first, so that a long lane starves no other. After the link came back, a user's changes and open channels
// come before the user's unsent rows.
extension Plan {
  /// A row of the lane was accepted or changed. The lane gets a turn as soon as possible.
  package mutating func outboxChanged(_ lane: OutboxLaneName, wait: Int64 = 0, now: Int64) {
    if var work = lanes[lane] {
      work.dueAt = min(work.dueAt, now + wait)
      work.hasChanged = work.hasChanged || work.isBusy
      lanes[lane] = work
    } else {
      lanes[lane] = LaneWork(dueAt: now + wait, wait: Backoff(maximum: pace.maximumBackoff))
    }
    users[lane.user]?.hasUnsent = true
  }

  /// The link is back: lanes that waited for it are due.
  mutating func releaseLanes(now: Int64) {
    // A turn of the lane also makes its waiting files due.
    for lane in uploads.names { outboxChanged(lane, now: now) }
    for lane in lanes.names {
      lanes[lane]?.isLinkBack = true
      lanes[lane]?.dueAt = now
      lanes[lane]?.wait.reset()
    }
  }

  /// Whether the link came back since the last call for this lane.
  mutating func takeLinkBack(_ lane: OutboxLaneName) -> Bool {
    defer { lanes[lane]?.isLinkBack = false }
    return lanes[lane]?.isLinkBack ?? false
  }

  /// The lane's turn that was told of the link's return failed: the next turn is told again.
  mutating func linkIsBack(_ lane: OutboxLaneName) { lanes[lane]?.isLinkBack = true }

  /// Of the lanes that may send, the one that was due first. Lanes that may not are held meanwhile, so after
  /// this call the first lane in line is one that may send now.
  mutating func pickLane(now: Int64) -> OutboxLaneName? {
    letLanesGo()
    while let lane = lanes.first?.lane, let holder = holder(of: lane, now: now) {
      lanes.hold(lane, by: holder)
    }
    return lanes.first.flatMap { $0.dueAt <= now ? $0.lane : nil }
  }

  /// Lets go of the lanes whose users or channels may let them begin since the last call.
  mutating func letLanesGo() {
    for user in users.takeOpened() {
      lanes.letGo(user)
      uploads.letGo(user)
    }
    for url in channels.takeOpened() { lanes.letGo(in: url) }
  }

  /// Whether the lane's user or its channel keeps it from sending at `now`; nil: neither does.
  private func holder(of lane: OutboxLaneName, now: Int64) -> LaneTable.Holder? {
    if users[lane.user]?.sendGate ?? .min <= now { return .user }
    return channels[lane.channel]?.sendGate ?? .max <= now ? .channel : nil
  }

  /// Whether the lane's read marks may be sent. The upstream's call marks everything as read, so since the
  /// link came back the upstream must have told what is new for the user, and in the channel if it is open.
  func mayMarkRead(_ lane: OutboxLaneName) -> Bool {
    guard let user = users[lane.user], !user.isCatchingUp else { return false }
    return channels[lane.channel].map { !$0.isCatchingUp || !$0.isOpen || $0.isOfNobody } ?? true
  }

  mutating func startedSending(_ lane: OutboxLaneName) { lanes[lane]?.isBusy = true }

  mutating func endedSending(_ lane: OutboxLaneName, _ outcome: Outcome, now: Int64) {
    guard var work = lanes[lane] else { return }
    work.isBusy = false
    switch outcome {
    case .drained(let nextTryIn):
      work.wait.reset()
      if work.hasChanged {
        work.dueAt = now
      } else if let nextTryIn {
        work.dueAt = now + nextTryIn
      } else {
        lanes[lane] = nil
        noteUnsent(of: lane.user)
        return
      }
    default: work.dueAt = now + wait(&work.wait, outcome)
    }
    work.hasChanged = false
    lanes[lane] = work
  }
}

extension UserWork {
  /// The moment before which the user's unsent messages may be sent: `Int64.min`: they may not; `.max`: they
  /// may at any time.
  var sendGate: Int64 {
    guard mayUpload, phase != .connecting else { return .min }
    // After a (re)connect the user's changes come first: they may end the right to send. Sends do not wait
    // for a long listing, nor for a usual poll, which may be late if there are many users.
    guard phase == .steady, isCatchingUp else { return .max }
    return isBusy ? .min : pollAt
  }

  /// Whether the user's files may be uploaded.
  var mayUpload: Bool { state.isActive && !isHeld }
}

extension ChannelWork {
  /// The moment before which messages may be sent into the channel, as for `UserWork.sendGate`.
  var sendGate: Int64 {
    guard isCatchingUp, isOpen, !isOfNobody else { return .max }
    // A look at an open channel comes first, too, but not one that waits after a failure.
    let check = max(heldBack.moment(.check, checkAt), retryAt ?? 0)
    return isBusy ? .min : check
  }
}
