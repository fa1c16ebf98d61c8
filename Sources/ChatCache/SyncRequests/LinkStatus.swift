/// The state of the link to the upstream, which all users share (B3).
package enum LinkState: Sendable, Equatable {
  /// No request was made yet.
  case unknown
  case online
  case offline(LinkLoss)

  /// The state's name in events and logs.
  package var word: String {
    switch self {
    case .unknown: "unknown"
    case .online: "online"
    case .offline(let loss): loss.rawValue
    }
  }
}

/// Why the upstream cannot be used.
package enum LinkLoss: String, Sendable, CaseIterable {
  case unreachable = "upstream_unreachable"
  /// The upstream refuses Perch's own key.
  case auth = "upstream_auth"
  /// The server shows a certificate that is not trusted. Nothing was sent to it.
  case untrusted = "upstream_untrusted"
  /// No upstream is configured.
  case none = "no_upstream"
}

/// A feature that an upstream may not offer to Perch's key (B32). The raw values are stored and shown.
package enum Capability: String, Sendable, CaseIterable {
  case channelChangelog = "channel_changelog"
  case messageChangelog = "message_changelog"
  case replyListing = "reply_listing"
  case uploads
  case deduplication
}

/// The link's state, and the values that decide how far a tail can be trusted (B25).
package struct LinkStatus: Sendable, Equatable {
  /// The state that all users are told.
  package var state: LinkState
  /// Rises at every start and every loss. A tail confirmed under another generation is not live.
  package var generation: Int64
  /// Milliseconds until the next try to reach the upstream; nil while online or without an upstream.
  package var retryAfter: Int64?
  /// Whether the upstream offers each capability. A capability that was not tried yet is missing.
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

  /// Whether the upstream is known to be unusable.
  package var isOffline: Bool {
    if case .offline = state { true } else { false }
  }

  /// How far a tail can be trusted at `now` (wall ms) in a channel that is polled every `interval` ms.
  package func judge(_ tail: Tail, now: Int64, interval: Int64) -> Tail.State {
    tail.state(generation: generation, isOffline: isOffline, now: now, interval: interval)
  }
}
