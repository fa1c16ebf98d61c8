import ChatModel

/// A view of a channel's messages that a client has open.
package struct OpenView: Sendable, Equatable {
  /// The first page that a view asks for.
  package struct Start: Sendable, Equatable {
    /// The time at which the page lies (ms); nil: the newest end.
    package var at: Int64?
    /// The number of rows wanted before that time.
    package var older: Int
    /// The number of rows wanted after that time.
    package var newer: Int

    /// A view that begins at `at`.
    package init(at: Int64?, older: Int, newer: Int) {
      self.at = at
      self.older = older
      self.newer = newer
    }

    /// The newest rows.
    package static let newest = Start(at: nil, older: 40, newer: 0)
  }

  /// The view's id.
  package let id: String
  /// The channel whose messages the view shows.
  package let channel: ChannelURL
  /// The first page that the view asks for.
  package let start: Start
  /// Whether the view shows the newest end (its `has_next` is false). Missing messages are counted only for
  /// such views (B28).
  package var isAtNewest: Bool
  /// The message whose replies the view shows; nil: it shows the channel's messages.
  package var thread: Int64?
  /// Whether the view's client was already told that the first answer failed (B16).
  package var wasToldOfFailure = false

  /// A view called `id` on that channel.
  package init(
    id: String, channel: ChannelURL, start: Start = .newest, isAtNewest: Bool, thread: Int64? = nil
  ) {
    self.thread = thread
    self.id = id
    self.channel = channel
    self.start = start
    self.isAtNewest = isAtNewest
  }
}
