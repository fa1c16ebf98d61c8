/// The classes of jobs, in order of importance (B30). Each class has turns of its own, so that none waits for
/// ever while another has much to do. A turn that neither its class nor that class's second uses goes to the
/// most important class with a job.
enum Share: CaseIterable, Sendable {
  /// Polls of open views, and webhook notes.
  case views
  /// Unsent messages.
  case sends
  /// Acknowledgements and polls of users; the user who has waited longest is first.
  case users
  /// First listings of users' channels.
  case listings
  /// Checks of channels that are behind and have no open view.
  case channels
  /// Prefetch, verification, doubts and gaps.
  case rest

  /// The class that gets the turns which this one does not use. Users whose polls are not due leave theirs to
  /// listings of users.
  var second: Share { self == .users ? .listings : self }

  /// The order of the turns. Of twenty turns, views and users have six each: at 40 requests a second 2 000
  /// users are then polled within 3 min. Sends have five: they do not fall behind where polls take all that
  /// the chat server can answer.
  static let turns: [Share] = [
    .views, .users, .sends, .views, .users, .sends, .views, .listings, .users, .sends,
    .views, .users, .sends, .views, .users, .channels, .views, .users, .sends, .rest,
  ]
}
