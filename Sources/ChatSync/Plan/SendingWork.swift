import ChatCache
import ChatModel

/// What is to be sent for one user in one channel.
struct LaneWork: Sendable {
  /// When something is to be tried next.
  var dueAt: Int64
  var isBusy = false
  /// Whether something changed while a job was under way: then the lane is looked at again at once.
  var hasChanged = false
  /// Whether the link came back after the lane's last turn. Its rows do not wait for the link any more (B40).
  var isLinkBack = false
  var wait: Backoff
}

// Sending (B30, B40, B43): a lane is looked at when its next try is due. Lanes that were served longest ago
// go first, so that a long lane starves nobody. After the link came back a user's changes and open channels
// come before what the user has unsent.
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
    // Their turn makes the files due that waited.
    for lane in uploads.keys { outboxChanged(lane, now: now) }
    for lane in Array(lanes.keys) {
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

  /// The link came back, and the lane's turn that was to say so failed.
  mutating func linkIsBack(_ lane: OutboxLaneName) { lanes[lane]?.isLinkBack = true }

  /// The lane that was due first among those that may send.
  func pickLane(now: Int64) -> OutboxLaneName? {
    lanes.filter { $1.dueAt <= now && maySend($0, $1, now: now) }
      .min { $0.value.dueAt < $1.value.dueAt }?.key
  }

  private func maySend(_ lane: OutboxLaneName, _ work: LaneWork, now: Int64) -> Bool {
    guard !work.isBusy, let user = users[lane.user], user.state.isActive, !user.isHeld else { return false }
    // After a (re)connect the user's changes come first, unless a long listing is under way: that is not
    // waited for. Nor is a usual poll, which may be late where there are many users.
    if user.phase == .steady, user.isCatchingUp, user.isBusy || user.pollAt <= now { return false }
    guard let channel = channels[lane.channel], channel.isOpen, !channel.isOfNobody else { return true }
    // A look at the channel that could begin now comes first. One that waits after a failure does not.
    let check = max(channel.heldBack.moment(.check, channel.checkAt), channel.retryAt ?? 0)
    return !channel.isBusy && check > now
  }

  /// When a lane may have something to send; nil: never. A lane that waits for its user's or channel's job
  /// is looked at when that ended.
  func lanesDueAt(now: Int64) -> Int64? {
    lanes.lazy.filter { self.maySend($0, $1, now: now) }.map(\.value.dueAt).min()
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
