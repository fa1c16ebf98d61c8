import ChatCache
import ChatModel

/// One job of the worker: a few requests that belong together and end in commits.
package enum SyncJob: Hashable, Sendable {
  /// Ask whether the upstream is there.
  case probe
  /// Ask the upstream about the user (B2).
  case connect(UserID)
  /// The next page of the user's first listing or sweep (B11).
  case list(UserID, after: String?)
  /// The channels a sweep did not meet: asked one by one before they are removed (B11).
  case endSweep(UserID)
  /// The channel changelog since the stored token.
  case channelChanges(UserID)
  /// Page one by last message, where there is no changelog (B11).
  case topChannels(UserID)
  /// A channel's own fields, as its connected members see them.
  case refresh(ChannelURL)
  /// Message changelog, then the newest end (B30, B31, B28).
  case check(ChannelURL)
  /// One message that a webhook named (B34).
  case message(ChannelURL, id: Int64)
  /// The newest pages of a channel nobody looks at (B33).
  case prefetch(ChannelURL)
  /// List again what changes may have been missed in (B31, B32).
  case verify(ChannelURL)
  /// A page of a gap somebody asked to fill (B28).
  case fill(ChannelURL, gap: Int64)
  /// Ask for messages by their ids of which answers disagree whether they are there (B27).
  case settle(ChannelURL)
  /// What a user has unsent in a channel (B40).
  case send(OutboxLaneName)
  /// The next file that a user has unsent in a channel (B45).
  case upload(OutboxLaneName)

  /// The channel it works on; one job per channel at a time.
  var channel: ChannelURL? {
    switch self {
    case .refresh(let url), .check(let url), .message(let url, _), .prefetch(let url), .verify(let url),
      .fill(let url, _), .settle(let url):
      url
    default: nil
    }
  }

  /// Whether it sends what is unsent.
  var isSend: Bool {
    if case .send = self { return true }
    return false
  }

  /// Whether it uploads a file.
  var isUpload: Bool {
    if case .upload = self { return true }
    return false
  }

  /// The user it works for; one job per user at a time.
  var user: UserID? {
    switch self {
    case .connect(let user), .list(let user, _), .endSweep(let user), .channelChanges(let user),
      .topChannels(let user):
      user
    default: nil
    }
  }
}

/// How a job ended.
package enum Outcome: Sendable {
  /// Done, nothing to add.
  case done
  /// The upstream knows the user.
  case acknowledged
  /// A page of the user's channels is stored. Nil: it was the last.
  case listed(next: String?, channels: [ChannelActivity])
  /// Changes are stored.
  case changed([ChannelActivity], hasMore: Bool)
  /// The changelog's token was refused: list everything again.
  case tokenLost
  /// The upstream does not offer what was asked (B32).
  case lacks(Capability)
  /// It refused what it may not offer, and answered another call: not the link's fault, nor the user's.
  case refused(Capability)
  /// A channel was looked at; whether its newest stretch is long enough, and whether anything is in doubt.
  case checked(isPrefetched: Bool, isInDoubt: Bool)
  /// A page of the prefetch is stored.
  case prefetched(isComplete: Bool)
  /// The lane has nothing more to send now; in so many ms it has, nil: only when something changes.
  case drained(nextTryIn: Int64?)
  /// The job goes on after that time: it waits without keeping a slot of running jobs.
  case waits(milliseconds: Int64)
  /// A page of a gap or of a verification is stored.
  case progressed(isComplete: Bool)
  /// The channel is gone, or nobody here is in it any more.
  case channelGone
  /// The upstream failed.
  case failed(UpstreamError)
  /// The cache failed: try again later.
  case storeFailed
}
