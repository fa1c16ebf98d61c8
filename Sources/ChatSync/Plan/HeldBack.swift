/// The jobs of one channel whose answers could not be decoded, each with its own wait (B35), as a value.
///
/// The channel's other jobs go on: one message that cannot be read does not keep the newest ones away.
struct HeldBack: Sendable, Equatable {
  /// A job within one channel.
  enum ChannelJob: Hashable, Sendable {
    case check, news, refresh, prefetch, verify, settle
    case message(Int64)
    case fill(Int64)
  }

  private struct Hold: Sendable, Equatable {
    var until: Int64
    var wait: Backoff
  }

  private var holds: [ChannelJob: Hold] = [:]

  /// Whether no job has to wait.
  var isEmpty: Bool { holds.isEmpty }

  /// Whether the job has to wait at `now`.
  func holds(_ job: ChannelJob, now: Int64) -> Bool { (holds[job]?.until ?? 0) > now }

  /// When a job that is due at `moment` may begin; `Int64.max` if it is not due.
  func moment(_ job: ChannelJob, _ moment: Int64?) -> Int64 {
    guard let moment else { return .max }
    return max(moment, holds[job]?.until ?? moment)
  }

  /// The job waits, longer after each failure in a row.
  mutating func hold(_ job: ChannelJob, maximum: Int64, now: Int64, _ next: (inout Backoff) -> Int64) {
    var hold = holds[job] ?? Hold(until: now, wait: Backoff(maximum: maximum))
    hold.until = now + next(&hold.wait)
    holds[job] = hold
  }

  /// The job's answer could be read, or a client waits for the job.
  mutating func letGo(_ job: ChannelJob) { holds[job] = nil }
}

extension SyncJob {
  /// The job within its channel, nil for one of a user or the link.
  var channelJob: HeldBack.ChannelJob? {
    switch self {
    case .check: .check
    case .news: .news
    case .refresh: .refresh
    case .prefetch: .prefetch
    case .verify: .verify
    case .settle: .settle
    case .message(_, let id): .message(id)
    case .fill(_, let gap): .fill(gap)
    case .probe, .connect, .list, .endSweep, .channelChanges, .topChannels, .send, .upload: nil
    }
  }
}
