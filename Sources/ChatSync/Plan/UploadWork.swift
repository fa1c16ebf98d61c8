import ChatCache
import ChatModel

// Uploads (B45) run beside other jobs, in slots of their own: half as many as other jobs have, at least one.
// A lane uploads one file at a time.
extension Plan {
  /// How many files are uploaded at once.
  private var uploadSlots: Int { RequestQueue<Void>.uploadSlots(of: pace.jobs) }

  var hasFreeUploadSlot: Bool { running.count(where: \.isUpload) < uploadSlots }

  /// A file of the lane may be uploaded after `milliseconds`.
  mutating func uploadWaits(_ lane: OutboxLaneName, milliseconds: Int64, now: Int64) {
    if var work = uploads[lane] {
      work.dueAt = min(work.dueAt, now + milliseconds)
      work.hasChanged = work.hasChanged || work.isBusy
      uploads[lane] = work
    } else {
      uploads[lane] = LaneWork(dueAt: now + milliseconds, wait: Backoff(maximum: pace.maximumBackoff))
    }
    users[lane.user]?.hasUnsent = true
  }

  /// Of the lanes that may upload, the one whose file was due first. Lanes that may not are held meanwhile.
  mutating func pickUpload(now: Int64) -> OutboxLaneName? {
    letLanesGo()
    while let lane = uploads.first?.lane, users[lane.user]?.mayUpload != true {
      uploads.hold(lane, by: .user)
    }
    return uploads.first.flatMap { $0.dueAt <= now ? $0.lane : nil }
  }

  mutating func endedUpload(_ lane: OutboxLaneName, _ outcome: Outcome, now: Int64) {
    guard var work = uploads[lane] else { return }
    work.isBusy = false
    switch outcome {
    case .drained(let nextTryIn):
      work.wait.reset()
      guard let wait = work.hasChanged ? 0 : nextTryIn else {
        uploads[lane] = nil
        noteUnsent(of: lane.user)
        return
      }
      work.dueAt = now + wait
    default: work.dueAt = now + wait(&work.wait, outcome)
    }
    work.hasChanged = false
    uploads[lane] = work
  }

  /// Notes whether the user still has something to send.
  mutating func noteUnsent(of user: UserID) {
    users[user]?.hasUnsent = lanes.hasLane(of: user) || uploads.hasLane(of: user)
  }
}
