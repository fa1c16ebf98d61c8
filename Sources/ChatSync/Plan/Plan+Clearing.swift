import ChatModel

// Data that was cleared on request is fetched again (B58). The outcomes of jobs under way are ignored,
// because their requests went out before. Until such a job ends it keeps its user or channel busy, so that no
// new job overtakes it.
extension Plan {
  /// The channel's messages were cleared: its newest pages are fetched again, and its newest end is checked
  /// if a view is open.
  package mutating func cleared(_ url: ChannelURL, now: Int64) {
    guard var work = channels[url] else { return }
    overtaken.formUnion(running.filter { $0.channel == url })
    work.begin(now: now)
    channels[url] = work
  }

  /// Everything was cleared: every user's channels are listed again. Views are told again when they begin
  /// anew.
  package mutating func clearedEverything(now: Int64) {
    // The outcome of a send still counts: its row is gone, and its lane learns that from the cache.
    overtaken.formUnion(running.filter { $0.user != nil || $0.channel != nil })
    channels.removeAll(but: running.compactMap(\.channel))
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
      // The job may have failed, and its notes wait for the next one.
      if case .news = job { channels[url]?.newsAt = now }
      if case .check = job { channels[url]?.checkAt = now }
    }
  }
}

extension ChannelWork {
  /// The channel's messages were cleared: its work begins anew.
  fileprivate mutating func begin(now: Int64) {
    isPrefetched = false
    verifyAt = nil
    settleAt = nil
    fills = []
    retryAt = nil
    wait.reset()
    heldBack = HeldBack()
    if isOpen {
      checkAt = now
      owesFirstCheck = true
    }
  }
}

extension UserWork {
  /// The user's channels were cleared: the user's work begins anew.
  fileprivate mutating func begin(now: Int64) {
    isSynced = false
    channelsListed = 0
    pollAt = now
    if phase != .connecting { beginListing() }
  }
}
