/// A channel in which nothing is due and nobody looks: all that its work has to remember. A million channels
/// are kept so, and therefore it has no optional times: `never` stands for none.
struct QuietChannel: Sendable {
  fileprivate var lastMessageAt: Int64
  fileprivate var newestNotedAt: Int64
  fileprivate var refreshedAt: Int64
  fileprivate var isPrefetched: Bool
  fileprivate var isUsed: Bool
  fileprivate var isOfNobody: Bool
  fileprivate var isResting: Bool

  fileprivate static let never = Int64.min

  /// Nil: the channel is not quiet, because its work has more than fits here.
  init?(_ work: ChannelWork) {
    guard !work.isBusy, !work.isOpen else { return nil }
    lastMessageAt = work.lastMessageAt
    newestNotedAt = work.newestNotedAt ?? QuietChannel.never
    refreshedAt = work.refreshedAt ?? QuietChannel.never
    (isPrefetched, isUsed) = (work.isPrefetched, work.isUsed)
    (isOfNobody, isResting) = (work.isOfNobody, work.isResting)
    guard ChannelWork(self, maximumBackoff: work.wait.maximum) == work.withoutPastTimes else { return nil }
  }
}

extension ChannelWork {
  /// The whole work of a quiet channel.
  init(_ channel: QuietChannel, maximumBackoff: Int64) {
    self.init(wait: Backoff(maximum: maximumBackoff))
    lastMessageAt = channel.lastMessageAt
    newestNotedAt = channel.newestNotedAt == QuietChannel.never ? nil : channel.newestNotedAt
    refreshedAt = channel.refreshedAt == QuietChannel.never ? nil : channel.refreshedAt
    (isPrefetched, isUsed) = (channel.isPrefetched, channel.isUsed)
    (isOfNobody, isResting) = (channel.isOfNobody, channel.isResting)
  }

  /// The same work without the times of jobs that are no longer due.
  var withoutPastTimes: ChannelWork {
    var work = self
    if messages.isEmpty { work.messagesAt = 0 }
    if !isRefreshDue { work.refreshAt = 0 }
    if fills.isEmpty { work.fillsAt = 0 }
    if !isBusy { work.owedFirstCheck = false }
    return work
  }
}
