import ChatModel

/// A user as the cache remembers one.
package struct KnownUser: Sendable, Equatable {
  /// Who.
  package let id: UserID
  /// Whether all channels were listed once (B11).
  package let isSynced: Bool
  /// Whether only `PUT /v1/connection` brings the user back (B4).
  package let isStopped: Bool
  /// Whether the upstream said that the user is gone (B5).
  package let isClosed: Bool
  /// How long ago the upstream first said so, and has not taken it back: ms in which the service ran.
  package let refusedFor: Int64?

  /// A user the cache knows.
  package init(id: UserID, isSynced: Bool, isStopped: Bool, isClosed: Bool = false, refusedFor: Int64? = nil)
  {
    self.id = id
    self.isSynced = isSynced
    self.isStopped = isStopped
    self.isClosed = isClosed
    self.refusedFor = refusedFor
  }
}
