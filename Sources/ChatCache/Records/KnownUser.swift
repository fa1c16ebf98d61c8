import ChatModel

/// A user that the cache knows.
package struct KnownUser: Sendable, Equatable {
  /// The user's id.
  package let id: UserID
  /// Whether all channels were listed once (B11).
  package let isSynced: Bool
  /// Whether only `PUT /v1/connection` brings the user back (B4).
  package let isStopped: Bool
  /// Whether the upstream said that the user is gone (B5).
  package let isClosed: Bool
  /// The time since the upstream first said so, in ms of running services; nil: it did not, or took it back.
  package let refusedFor: Int64?

  /// A user with these values.
  package init(id: UserID, isSynced: Bool, isStopped: Bool, isClosed: Bool = false, refusedFor: Int64? = nil)
  {
    self.id = id
    self.isSynced = isSynced
    self.isStopped = isStopped
    self.isClosed = isClosed
    self.refusedFor = refusedFor
  }
}
