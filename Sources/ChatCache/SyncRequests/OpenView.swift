import ChatModel

/// A view of a channel's messages that a client has open.
package struct OpenView: Sendable, Equatable {
  /// Where the view begins, for its first answer.
  package struct Start: Sendable, Equatable {
    /// A moment (ms), nil for the newest end.
    package var at: Int64?
    /// Rows wanted before it and after it.
    package var older: Int
    /// Rows wanted after it.
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

  /// What names it.
  package let id: String
  /// Where it is.
  package let channel: ChannelURL
  /// Where it begins.
  package let start: Start
  /// Whether it shows the newest end (its `has_next` is false): only then missing messages are counted (B28).
  package var isAtNewest: Bool
  /// The message whose replies it shows; nil: it shows the channel's line.
  package var thread: Int64?
  /// Whether it was told already that its first answer could not be had (B16).
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
