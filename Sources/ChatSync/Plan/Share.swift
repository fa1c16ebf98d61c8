/// The classes of jobs, in their order of importance (B30). Each has turns of its own, so that nothing
/// waits without end however much there is to do of another; a turn that its class does not use is the
/// first's in line.
enum Share: CaseIterable, Sendable {
  /// Open views, and what webhooks named.
  case views
  /// Unsent messages.
  case sends
  /// Users' acknowledgements and polls, in turn by age.
  case users
  /// First listings.
  case listings
  /// Channels that fell behind and that nobody looks at.
  case channels
  /// Prefetch, verification, gaps.
  case rest

  /// The order of the turns. Views have eight of twenty turns and users have seven. At 40 requests a second,
  /// 2 000 users are then polled within 3 min.
  static let turns: [Share] = [
    .views, .users, .views, .sends, .views, .users, .views, .users, .listings, .users,
    .views, .users, .views, .sends, .views, .users, .views, .users, .channels, .rest,
  ]
}
