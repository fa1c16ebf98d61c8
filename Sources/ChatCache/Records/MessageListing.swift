import ChatModel

/// Where a changelog is read from.
package enum ChangesSince: Sendable, Equatable {
  case time(Int64)
  case token(SyncToken)
}

/// Which stretch of a channel's line is listed.
package struct MessageWindow: Sendable, Hashable {
  /// Where it is anchored.
  package typealias Anchor = Listing.Anchor
  /// Where.
  package var anchor: Anchor
  /// Rows wanted before the anchor.
  package var older: Int
  /// Rows wanted after it.
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
  /// What was asked.
  package var window: MessageWindow
  /// What came.
  package var rows: [MessageRecord]
  /// Whether every item could be read: only then does absence prove anything (B35).
  package var isWhole: Bool
  /// Whether the last item could be read: only then does the listing say where the newest end is.
  package var isEndRead: Bool
  /// Before which of the rows, by number, items stood that could not be read: the claim ends there (B24).
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
  /// What the events are called (B20).
  package var source: ChangeSource
  /// The link's generation when the listing was asked for; a listing of the newest end confirms the tail
  /// under it.
  package var generation: Int64
  /// More are missing than are filled by themselves: so many at least (B28).
  package var hugeMissing: Int?
  /// The gap these listings fill, which stays marked as being filled while anything of it is left (B28).
  package var fillsGap: Int64?
  /// Whether the upstream is known to list replies: otherwise a listing says nothing of them, and none is
  /// deleted because it is absent (docs/rules.md, "authoritative listing").
  package var listsReplies = true
  /// Whether these listings were asked for to settle doubts, long enough after them: what they lack, too, is
  /// gone (B27).
  package var settlesDoubts = false

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
  /// Items left out because they could not be read.
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
}
