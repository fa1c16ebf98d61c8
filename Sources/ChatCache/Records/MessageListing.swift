import ChatModel

/// The start of a changelog's next page: a time, or the upstream's token.
package enum ChangesSince: Sendable, Equatable {
  case time(Int64)
  case token(SyncToken)
}

/// The window of a channel's messages that a request to the upstream lists.
package struct MessageWindow: Sendable, Hashable {
  /// The kinds of anchors.
  package typealias Anchor = Listing.Anchor
  /// The anchor of the window.
  package var anchor: Anchor
  /// The number of rows wanted before the anchor.
  package var older: Int
  /// The number of rows wanted after the anchor.
  package var newer: Int
  /// Whether rows at the anchor are wanted.
  package var includesAnchor: Bool
  /// Only the replies to that message; nil: all messages.
  package var thread: Int64?

  /// `older` rows before and `newer` after the anchor, and the anchor itself where wanted.
  package init(_ anchor: Anchor, older: Int, newer: Int, includesAnchor: Bool = true) {
    self.anchor = anchor
    self.older = older
    self.newer = newer
    self.includesAnchor = includesAnchor
  }

  /// What an answer with these rows proves (B24).
  package func listing(_ rows: some Sequence<Position>) -> Listing {
    Listing(anchor: anchor, olderLimit: older, newerLimit: newer, includesAnchor: includesAnchor, rows: rows)
  }
}

/// An authoritative listing and its rows.
package struct MessageListing: Sendable, Equatable {
  /// The window that was requested.
  package var window: MessageWindow
  /// The messages in the answer.
  package var rows: [MessageRecord]
  /// Whether every item could be read: only then does absence prove anything (B35).
  package var isWhole: Bool
  /// Whether the last item could be read: only then does the listing say where the newest end is.
  package var isEndRead: Bool
  /// Indexes of rows before which an item could not be read. The proven stretch ends there (B24).
  package var breaks: [Int]
  /// The log's sequence when the request went out (B27).
  package var askedAt: Int64

  /// A listing with these parts.
  package init(
    window: MessageWindow, rows: [MessageRecord], isWhole: Bool, isEndRead: Bool = true, breaks: [Int] = [],
    askedAt: Int64
  ) {
    self.window = window
    self.rows = rows
    self.isWhole = isWhole
    self.isEndRead = isEndRead
    self.breaks = breaks
    self.askedAt = askedAt
  }
}

/// Why listings are stored.
package struct ListingContext: Sendable, Equatable {
  /// The source that the events name (B20).
  package var source: ChangeSource
  /// The link's generation when the request went out. A listing of the newest end confirms the tail under
  /// this generation.
  package var generation: Int64
  /// The least number of missing messages, if there are too many to fill the gap without a client's request
  /// (B28).
  package var hugeMissing: Int?
  /// The gap that these listings fill. It stays marked as being filled while any of it is left (B28).
  package var fillsGap: Int64?
  /// Whether the upstream is known to list replies. If not, a listing proves nothing about replies, and none
  /// is deleted because the listing lacks it (docs/rules.md, "authoritative listing").
  package var listsReplies = true
  /// Whether these listings were requested to settle doubts, long enough after the first listing. Doubted
  /// messages that they lack too are deleted (B27).
  package var settlesDoubts = false
  /// The webhook notes of new messages that these listings answer. The commit that stores such a message
  /// deletes its note (B34).
  package var answers: [WebhookNote] = []

  /// A context with these parts.
  package init(
    source: ChangeSource, generation: Int64, hugeMissing: Int? = nil
  ) {
    self.source = source
    self.generation = generation
    self.hugeMissing = hugeMissing
  }
}

/// A page of a changelog.
package struct UpstreamChanges<Item: Sendable, Deleted: Sendable>: Sendable {
  /// The items that are new or changed, each with all its fields.
  package var updated: [Item]
  /// The names of the items that were deleted.
  package var deleted: [Deleted]
  /// Whether there are more pages after this one.
  package var hasMore: Bool
  /// The token for the next page, also after the last page; nil where the upstream gave none.
  package var next: SyncToken?
  /// The number of items left out because they could not be read.
  package var unreadable: Int
  /// The names of those items, where their names could be read: they are to be asked for one by one.
  package var unreadableNames: [Deleted]

  /// A page with these parts.
  package init(
    updated: [Item], deleted: [Deleted], hasMore: Bool, next: SyncToken? = nil, unreadable: Int,
    unreadableNames: [Deleted] = []
  ) {
    self.updated = updated
    self.deleted = deleted
    self.hasMore = hasMore
    self.next = next
    self.unreadable = unreadable
    self.unreadableNames = unreadableNames
  }

  /// Whether nothing changed since the last page, and the next page begins where this one did: then there is
  /// nothing to store.
  package func isNothing(since last: ChangesSince) -> Bool {
    updated.isEmpty && deleted.isEmpty && next.map { .token($0) == last } ?? true
  }
}
