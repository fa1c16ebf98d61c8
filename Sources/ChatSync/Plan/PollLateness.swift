/// How late users' polls have been lately, as a value. The interval that clients are told
/// (`poll_interval_ms`) grows with it for all users alike, and shrinks again when polls catch up.
///
/// Two polls of a user are apart by the usual interval, by the time for which a due poll waits until it
/// begins, and by the time until it is answered. Polls begin in the order in which they are due, so none has
/// waited longer than the one that is first in line. `told` is never shorter than the usual interval and that
/// wait, but for half a step (`step`). The longest wait is kept, and halves in each usual interval. Of the
/// answers an average counts, so that one slow answer is not told.
package struct PollLateness: Sendable, Equatable {
  /// The longest wait lately (ms), and when it ended.
  private var wait: Int64 = 0
  private var waitedAt: Int64 = 0
  /// The average time until a poll is answered (ms).
  private var answer: Int64 = 0

  /// No poll was late.
  package init() {}

  /// A poll that was due at `dueAt` began. `usual`: the usual interval.
  package mutating func began(dueAt: Int64, usual: Int64, now: Int64) {
    guard now - dueAt >= lately(usual: usual, now: now) else { return }
    (wait, waitedAt) = (now - dueAt, now)
  }

  /// A poll was answered after that time.
  package mutating func answered(after milliseconds: Int64) {
    answer += (milliseconds - answer) / PollLateness.answers
  }

  /// The interval between two polls of a user, in whole steps beyond the usual one. `dueAt`: when the poll
  /// that is first in line is or was due.
  package func told(usual: Int64, dueAt: Int64?, now: Int64) -> Int64 {
    let step = PollLateness.step(of: usual)
    let late = max(lately(usual: usual, now: now), now - (dueAt ?? now)) + answer
    return late <= step / 2 ? usual : usual + (late + step - 1) / step * step
  }

  /// The unit in which the told interval grows: a tenth of the usual one.
  package static func step(of usual: Int64) -> Int64 { max(1, usual / 10) }

  /// Over how many answers their average is kept.
  private static let answers: Int64 = 8

  /// The longest wait lately, halved for each usual interval since then.
  private func lately(usual: Int64, now: Int64) -> Int64 {
    let (halvings, rest) = max(0, now - waitedAt).quotientAndRemainder(dividingBy: max(1, usual))
    let left = wait >> min(halvings, 62)
    return left - Int64(Double(left) * Double(rest) / Double(max(1, usual)) / 2)
  }
}

/// The interval between two polls of a user that clients are told, as the worker last published it. It grows
/// while the first poll in line waits, also if the worker begins nothing meanwhile.
struct ToldInterval: Sendable, Equatable {
  var usual: Int64 = 30_000
  var lateness = PollLateness()
  /// When the poll that waits longest is or was due; nil: none waits, or the link is down.
  var dueAt: Int64?

  func milliseconds(now: Int64) -> Int64 { lateness.told(usual: usual, dueAt: dueAt, now: now) }
}

extension Plan {
  /// The interval between two polls of a user that clients are told.
  func toldInterval(now: Int64) -> ToldInterval {
    ToldInterval(
      usual: userInterval(now: now), lateness: lateness,
      dueAt: link.isOnline ? users.usualPollDueAt.map { max($0, onlineAt) } : nil)
  }

  /// Notes how late the job is, if it is a usual poll. Polls that clients wait for come before others, and so
  /// do first listings: they tell nothing of how late the others are.
  mutating func notePoll(_ job: SyncJob, now: Int64) {
    guard job.isPoll, let user = job.user, let turn = users[user]?.turn, !turn.isPreferred, !turn.isListing
    else { return }
    lateness.began(dueAt: max(turn.since, onlineAt), usual: userInterval(now: now), now: now)
    pollsBegun[user] = now
  }

  /// A job ended: notes how long the answer took, if it was a usual poll.
  mutating func noteAnswer(_ job: SyncJob, _ outcome: Outcome, now: Int64) {
    guard job.isPoll, let user = job.user, let begun = pollsBegun.removeValue(forKey: user) else { return }
    if outcome.isAnswer { lateness.answered(after: now - begun) }
  }
}

extension SyncJob {
  /// Whether the job asks for the changes of a user's channels.
  fileprivate var isPoll: Bool {
    switch self {
    case .channelChanges, .topChannels: true
    default: false
    }
  }
}
