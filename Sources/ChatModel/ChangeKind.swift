/// The kind of a row of the event log. The numbers are stored.
package enum ChangeKind: Int64, Sendable, CaseIterable {
  /// Messages of a stretch were added or changed.
  case messages = 1
  /// One message was deleted.
  case messageDeleted = 2
  /// The channel itself changed, or a part of it that all members see.
  case channel = 3
  /// The channel is gone upstream.
  case channelDeleted = 4
  /// The user became a member (joined or invited).
  case membershipGained = 5
  /// The user is no member any more.
  case membershipLost = 6
  /// The user's own view of the channel changed: unread counts, hidden state, role.
  case membership = 7
  /// The user's history floor in the channel moved (B23).
  case floor = 8
  /// A stretch of the channel's line changed its coverage.
  case coverage = 9
  /// A gap became too large to be filled without a client's request (B28).
  case hugeGap = 10
  /// The link to the upstream changed.
  case connection = 11
  /// The user's first listing made progress.
  case syncProgress = 12
  /// An unsent message or change of the user changed.
  case outbox = 13
  /// A collection's first upstream answer is in the cache (B16).
  case collectionAnswered = 14
  /// A collection's first request to the upstream failed (B16).
  case collectionFailed = 15
  /// A channel's cached messages were cleared.
  case cacheCleared = 16
  /// Covered messages have to be verified again (B31).
  case unverified = 17
  /// A collection's window grew too large, and its far side was cut off (B22).
  case windowTrimmed = 18
  /// One page of the user's first listing was stored. This row stands for one `membershipGained` row of each
  /// channel in the page.
  case channelsListed = 19
  /// More of an unsent message's file was uploaded (B45).
  case upload = 20
  /// The newest end of a channel with open views was confirmed, for the first time since the link was lost
  /// (B25).
  case tailConfirmed = 21
  /// New messages of a stretch were stored before this cache knew that the user is in the channel. It follows
  /// the user's joining.
  case missedMessages = 22

  /// Whether the chat itself changed, and not only the cached part of it.
  package var isOfTheChat: Bool {
    switch self {
    case .coverage, .hugeGap, .unverified, .cacheCleared, .outbox, .upload, .collectionAnswered,
      .collectionFailed, .windowTrimmed, .tailConfirmed:
      false
    default: true
    }
  }
}

/// Where a change came from (B20). The log stores the numbers; clients get the texts.
package enum ChangeSource: Int64, Sendable, CaseIterable {
  case messageReceived = 1
  case messageSent, messageUpdated, messageDeleted, reactionUpdated, threadUpdated
  case channelChanged, channelDeleted, channelHidden, channelUnhidden, channelFrozen, channelUnfrozen
  case channelMetadataChanged
  case memberJoined, memberLeft, memberInvited, memberBanned, memberMuted
  case read
  case apiResult, messageFill, messageChangelog, channelChangelog, channelRefresh
  case localPendingCreated, localFailed, localCanceled, localResendStarted, localWindowTrimmed

  /// The word the contract uses.
  package var text: StaticString {
    switch self {
    case .messageReceived: "event.message_received"
    case .messageSent: "event.message_sent"
    case .messageUpdated: "event.message_updated"
    case .messageDeleted: "event.message_deleted"
    case .reactionUpdated: "event.reaction_updated"
    case .threadUpdated: "event.thread_updated"
    case .channelChanged: "event.channel_changed"
    case .channelDeleted: "event.channel_deleted"
    case .channelHidden: "event.channel_hidden"
    case .channelUnhidden: "event.channel_unhidden"
    case .channelFrozen: "event.channel_frozen"
    case .channelUnfrozen: "event.channel_unfrozen"
    case .channelMetadataChanged: "event.channel_metadata_changed"
    case .memberJoined: "event.member_joined"
    case .memberLeft: "event.member_left"
    case .memberInvited: "event.member_invited"
    case .memberBanned: "event.member_banned"
    case .memberMuted: "event.member_muted"
    case .read: "event.read"
    case .apiResult: "api_result"
    case .messageFill: "message_fill"
    case .messageChangelog: "message_changelog"
    case .channelChangelog: "channel_changelog"
    case .channelRefresh: "channel_refresh"
    case .localPendingCreated: "local.pending_created"
    case .localFailed: "local.failed"
    case .localCanceled: "local.canceled"
    case .localResendStarted: "local.resend_started"
    case .localWindowTrimmed: "local.window_trimmed"
    }
  }

  /// Whether a channel's members changed: one joined, left, or was invited or banned.
  package var concernsMembers: Bool {
    switch self {
    case .memberJoined, .memberLeft, .memberInvited, .memberBanned: true
    default: false
    }
  }

  /// Whether a user's action or a webhook told the change as it happened; false: sync found it (B10).
  package var isRealtime: Bool {
    rawValue < ChangeSource.apiResult.rawValue || rawValue >= ChangeSource.localPendingCreated.rawValue
  }
}
