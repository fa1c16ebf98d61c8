/// What everybody is told of the one link to the upstream (B3).
package enum LinkState: Sendable, Equatable {
  /// Nothing was tried yet.
  case unknown
  case online
  case offline(LinkLoss)

  /// The word of events and logs.
  package var word: String {
    switch self {
    case .unknown: "unknown"
    case .online: "online"
    case .offline(let loss): loss.rawValue
    }
  }
}

/// Why the upstream cannot be had.
package enum LinkLoss: String, Sendable, CaseIterable {
  case unreachable = "upstream_unreachable"
  /// The upstream refuses Perch's own key.
  case auth = "upstream_auth"
  /// Whoever answers there shows a certificate that is not trusted here: nothing was sent.
  case untrusted = "upstream_untrusted"
  /// None was configured.
  case none = "no_upstream"
}

/// What an upstream may not offer to a server-side key (B32). The names are stored and shown.
package enum Capability: String, Sendable, CaseIterable {
  case channelChangelog = "channel_changelog"
  case messageChangelog = "message_changelog"
  case replyListing = "reply_listing"
  case uploads
  case deduplication
}

/// The link's status, with what judges tails (B25).
package struct LinkStatus: Sendable, Equatable {
  /// What everybody is told.
  package var state: LinkState
  /// Rises at every start and every loss; a tail confirmed under another is not live.
  package var generation: Int64
  /// When the upstream is tried again, ms from now; nil while online or without an upstream.
  package var retryAfter: Int64?
  /// What the upstream is known to offer, or not to; what is not in it was not probed yet.
  package var capabilities: [Capability: Bool]

  /// A link in this state.
  package init(
    _ state: LinkState, generation: Int64, retryAfter: Int64? = nil, capabilities: [Capability: Bool] = [:]
  ) {
    self.state = state
    self.generation = generation
    self.retryAfter = retryAfter
    self.capabilities = capabilities
  }

  /// Whether it is known that the upstream cannot be had.
  package var isOffline: Bool {
    if case .offline = state { true } else { false }
  }

  /// How far a tail can be trusted at `now` (wall ms) in a channel that is looked at every `interval` ms.
  package func judge(_ tail: Tail, now: Int64, interval: Int64) -> Tail.State {
    tail.state(generation: generation, isOffline: isOffline, now: now, interval: interval)
  }
}
