import ChatModel

// What was let go of on request is to be fetched again (B58), and what jobs under way bring of it counts for
// nothing: they asked before. Until such a job ends it keeps its user or channel busy, so nothing
// overtakes itself.
extension Plan {
  /// The channel's messages are gone: its newest pages are fetched again, and the newest end is looked at
  /// where somebody looks.
  package mutating func cleared(_ url: ChannelURL, now: Int64) {
    guard var work = channels[url] else { return }
    overtaken.formUnion(running.filter { $0.channel == url })
    work.begin(now: now)
    channels[url] = work
  }

  /// Everything is gone, views too: every user's channels are listed again.
  package mutating func clearedEverything(now: Int64) {
    // What a send brings still counts: its row is gone, and its lane learns that by itself.
    overtaken.formUnion(running.filter { $0.user != nil || $0.channel != nil })
    for url in channels.urls {
      guard channels[url]?.isBusy == true else {
        channels[url] = nil
        continue
      }
      channels[url]?.views = TextMap()
      channels[url]?.begin(now: now)
    }
    for user in users.names {
      users[user]?.begin(now: now)
      changed(user)
    }
  }

  /// A job that was overtaken by a clear ended.
  mutating func endedOvertaken(_ job: SyncJob, now: Int64) {
    if let user = job.user {
      users[user]?.isBusy = false
      users[user]?.pollAt = now
      changed(user)
    } else if let url = job.channel {
      channels[url]?.isBusy = false
    }
  }
}

extension ChannelWork {
  /// Nothing of the channel's messages is here any more.
  fileprivate mutating func begin(now: Int64) {
    isPrefetched = false
    verifyAt = nil
    settleAt = nil
    fills = []
    retryAt = nil
    wait.reset()
    heldBack = HeldBack()
    if isOpen { checkAt = now }
  }
}

extension UserWork {
  /// Nothing of the user's channels is here any more.
  fileprivate mutating func begin(now: Int64) {
    isSynced = false
    channelsListed = 0
    sweepAt = .max
    pollAt = now
    if phase != .connecting { phase = .listing(after: nil, done: 0) }
  }
}
