import ChatModel

/// Messages of one channel that a request misses. The caller has checked the user's rights; the fetched
/// messages are stored for all users.
package struct MessageSyncRequest: Sendable, Hashable {
  /// The missing messages.
  package enum Stretch: Sendable, Hashable {
    /// Messages newer than the newest covered one, or the newest page if nothing is covered (B25).
    case newest
    /// `rows` messages right before that position.
    case older(than: Position, rows: Int)
    /// `rows` messages right after that position.
    case newer(than: Position, rows: Int)
    /// Messages before, at and after that moment (ms).
    case around(Int64, older: Int, newer: Int)
    /// One message, by its id.
    case message(Int64)
  }

  /// The channel of the messages.
  package let channel: ChannelURL
  /// The missing messages.
  package let stretch: Stretch
  /// The message to which replies are wanted; nil: messages of the channel's own line.
  package let thread: Int64?

  /// A request for that stretch. The sync worker cuts it to one page of the upstream.
  package init(_ channel: ChannelURL, _ stretch: Stretch, thread: Int64? = nil) {
    self.channel = channel
    self.stretch = stretch
    self.thread = thread
  }
}

/// What became of a sync request.
package enum SyncOutcome: Sendable, Equatable {
  /// The upstream's answer is in the cache: read again.
  case stored
  /// The time limit ended first. The fetch goes on, and its result will be in the cache.
  case late
  /// Nothing was fetched: answer from the cache as it is.
  case failed(SyncError)
}

/// Why a sync request failed. `SyncProblems` turns these into problems; the texts are the contract's codes.
package enum SyncError: Error, Sendable, Equatable {
  /// 503 `upstream_unreachable`: the link is down for that reason; when to ask again (ms).
  case unreachable(LinkLoss, retryAfter: Int64)
  /// 403 `user_unknown`: the upstream does not know the user (B2), or not any more (B5).
  case userUnknown
  /// 503 `not_synced`: the channel is not known, and whether it exists cannot be asked (B1).
  case notSynced(retryAfter: Int64)
  /// The upstream refused this request.
  case rejected(code: Int, message: String)
  /// Too many requests at once, here or upstream; when to ask again (ms).
  case busy(retryAfter: Int64)
  /// The upstream did not answer usefully although the link is up; the same request may succeed later.
  case failed(reason: String)
  /// 503 `storage_unavailable`: the cache could not read or store something (B60).
  case storage(reason: String)
  /// 400: the body of a webhook is no JSON object, or lacks that field.
  case unreadable(field: String?)
  /// The service is ending.
  case stopping
}
