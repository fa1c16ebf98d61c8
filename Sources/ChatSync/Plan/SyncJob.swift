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
  /// Ask about each channel that no page of a sweep contained, before it is removed (B11).
  case endSweep(UserID)
  /// The channel changelog since the stored token.
  case channelChanges(UserID)
  /// The first page of channels by last message, if there is no changelog (B11).
  case topChannels(UserID)
  /// A channel's own fields, as its connected members see them.
  case refresh(ChannelURL)
  /// Message changelog, then the newest end (B30, B31, B28).
  case check(ChannelURL)
  /// The newest end, because a webhook told of a new message (B34).
  case news(ChannelURL)
  /// One message that a webhook named (B34).
  case message(ChannelURL, id: Int64)
  /// The newest pages of a channel without an open view (B33).
  case prefetch(ChannelURL)
  /// List stretches again in which changes may have been missed (B31, B32).
  case verify(ChannelURL)
  /// A page of a gap that a client asked to fill (B28).
  case fill(ChannelURL, gap: Int64)
  /// Ask for doubted messages by their ids (B27).
  case settle(ChannelURL)
  /// Send the unsent rows of a user in a channel (B40).
  case send(OutboxLaneName)
  /// Upload the next file of a user's unsent messages in a channel (B45).
  case upload(OutboxLaneName)

  /// The job's channel; a channel has one job at a time.
  var channel: ChannelURL? {
    switch self {
    case .refresh(let url), .check(let url), .news(let url), .message(let url, _), .prefetch(let url),
      .verify(let url), .fill(let url, _), .settle(let url):
      url
    default: nil
    }
  }

  /// Whether the job sends unsent rows.
  var isSend: Bool {
    if case .send = self { return true }
    return false
  }

  /// Whether the job uploads a file.
  var isUpload: Bool {
    if case .upload = self { return true }
    return false
  }

  /// Whether the job lists a channel's newest messages.
  var isNews: Bool {
    switch self {
    case .news, .check: true
    default: false
    }
  }

  /// The job's user; a user has one job at a time.
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
  /// The job is done.
  case done
  /// The upstream knows the user.
  case acknowledged
  /// A page of the user's channels is stored. Nil: it was the last.
  case listed(next: String?, channels: [ChannelActivity])
  /// All of the user's channels are listed, and no stored channel was missing. `isOnePage`: one answer had
  /// all of them, so no change since the listing began is missing either.
  case allListed([ChannelActivity], isOnePage: Bool)
  /// Changes are stored.
  case changed([ChannelActivity], hasMore: Bool)
  /// The changelog's token was refused: list everything again.
  case tokenLost
  /// The upstream does not offer what was asked (B32).
  case lacks(Capability)
  /// The upstream refused a call that it may not offer, and answered another one: neither the link nor the
  /// user is at fault.
  case refused(Capability)
  /// A channel was checked. `isPrefetched`: its newest stretch is long enough. `isInDoubt`: it has doubted
  /// messages.
  case checked(isPrefetched: Bool, isInDoubt: Bool)
  /// A page of a prefetch was stored. `isComplete`: it was the last.
  case prefetched(isComplete: Bool)
  /// The lane has nothing to send now. `nextTryIn`: the ms until it has; nil: not before something changes.
  case drained(nextTryIn: Int64?)
  /// The job goes on after that time, and keeps no slot of the running jobs until then.
  case waits(milliseconds: Int64)
  /// A page of a gap or a verification was stored, or doubts were settled. `isComplete`: nothing is left to
  /// do.
  case progressed(isComplete: Bool)
  /// The channel is gone, or no user of this cache is in it any more.
  case channelGone
  /// The upstream failed.
  case failed(UpstreamError)
  /// The cache failed: try again later.
  case storeFailed
}

extension Outcome {
  /// Whether the user's changes are unknown after this outcome of one of the user's jobs. Nil: it tells
  /// nothing of that, like one page of several.
  var leavesChangesUnknown: Bool? {
    switch self {
    case .changed(_, hasMore: false), .allListed(_, isOnePage: true): false
    case .failed(.canceled), .changed(_, hasMore: true), .listed, .allListed, .acknowledged, .done: nil
    case .failed, .storeFailed, .refused, .tokenLost, .lacks: true
    // Outcomes of jobs of channels.
    case .checked, .prefetched, .drained, .waits, .progressed, .channelGone: nil
    }
  }

  /// Whether the upstream answered. False: the link may be at fault.
  var isAnswer: Bool {
    switch self {
    case .failed(.rejection), .failed(.rateLimited), .failed(.unreadable): true
    case .failed, .storeFailed: false
    default: true
    }
  }
}
