import ChatCache

/// How much of a channel list a client has loaded: everything up to a sort key that only `more` moves (B9).
///
/// The boundary is a key, not a channel: the channel that stood there may move or go, the window stays.
package struct ChannelWindow: Hashable, Sendable {
  /// The last key that was loaded; nil while nothing was.
  package private(set) var boundary: ChannelListKey?
  /// Whether more may follow: true until a page proved the end.
  package private(set) var hasMore: Bool

  /// A window that was stored.
  package init(boundary: ChannelListKey?, hasMore: Bool) {
    self.boundary = boundary
    self.hasMore = hasMore
  }

  /// The window before its first page.
  package static let closed = ChannelWindow(boundary: nil, hasMore: true)

  /// Whether a channel with that key is inside.
  package func contains(_ key: ChannelListKey) -> Bool {
    guard hasMore else { return true }
    return boundary.map { !$0.precedes(key) } ?? false
  }

  /// Extends the window by a page that ended at `last`. A page that is loaded again moves nothing (B17).
  package mutating func take(last: ChannelListKey?, hasMore more: Bool) {
    if let last, boundary.map({ $0.precedes(last) }) ?? true {
      boundary = last
      hasMore = hasMore && more
    } else if !more {
      hasMore = false
    }
  }
}
