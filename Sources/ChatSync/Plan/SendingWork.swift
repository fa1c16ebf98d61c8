import ChatCache
import ChatModel

/// The sending, or the uploads, that are due in one lane.
struct LaneWork: Sendable {
  /// When the next try is due.
  var dueAt: Int64
  var isBusy = false
  /// Whether the lane changed while its job was under way: then its next turn is due at once.
  var hasChanged = false
  /// Whether the link came back after the lane's last turn. Its rows do not wait for the link any more (B40).
  var isLinkBack = false
  var wait: Backoff
}

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

  /// The lane's turn that was told of the link's return failed: the next turn is told again.
  mutating func linkIsBack(_ lane: OutboxLaneName) { lanes[lane]?.isLinkBack = true }

  /// Of the lanes that may send, the one that was due first.
  func pickLane(now: Int64) -> OutboxLaneName? { nextLane(before: now + 1, now: now)?.lane }

  /// Of the lanes that may send, the one that is due first, and when. Only lanes that are due before all
  /// others so far are looked into, because many may wait.
  private func nextLane(before end: Int64, now: Int64) -> (lane: OutboxLaneName, dueAt: Int64)? {
    var first: (lane: OutboxLaneName, dueAt: Int64)?
    for (lane, work) in lanes where work.dueAt < first?.dueAt ?? end && maySend(lane, work, now: now) {
      first = (lane, work.dueAt)
    }
    return first
  }

  private func maySend(_ lane: OutboxLaneName, _ work: LaneWork, now: Int64) -> Bool {
    guard !work.isBusy, let user = users[lane.user], user.state.isActive, !user.isHeld else { return false }
    // After a (re)connect the user's changes come first: they may end the right to send. Sends do not wait
    // for a long listing, nor for a usual poll, which may be late if there are many users.
    if user.phase == .connecting { return false }
    if user.phase == .steady, user.isCatchingUp, user.isBusy || user.pollAt <= now { return false }
    guard let channel = channels[lane.channel], channel.isCatchingUp, channel.isOpen, !channel.isOfNobody
    else { return true }
    // A look at an open channel comes first, too, but not one that waits after a failure.
    let check = max(channel.heldBack.moment(.check, channel.checkAt), channel.retryAt ?? 0)
    return !channel.isBusy && check > now
  }

  /// When the next lane may send; nil: none may. A lane that waits for a job of its user or channel may send
  /// after that job.
  func lanesDueAt(now: Int64) -> Int64? { nextLane(before: .max, now: now)?.dueAt }

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
