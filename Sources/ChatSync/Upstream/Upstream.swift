import ChatCache
import ChatModel

/// The worker's port to the chat server, in Perch's words. One implementation per kind of server.
///
/// Every call throws `UpstreamError` and nothing else (typed throws through the existential break this
/// compiler). Listings are authoritative: every type, all replies, no filter, no viewer (docs/rules.md,
/// "authoritative listing").
package protocol Upstream: Sendable {
  /// Makes a cheap request that proves that the server answers and accepts the key.
  func probe() async throws

  /// Whether a file can be uploaded by itself (B32, B45), asked without uploading one.
  func offersUploads(_ importance: Importance) async throws -> Bool

  /// The user. If the upstream has no such user, the call throws a rejection that denies the user.
  func user(_ user: UserID, _ importance: Importance) async throws -> UserRecord

  /// A page of the user's channels, hidden and empty ones too.
  func channels(
    of user: UserID, order: ChannelOrder, limit: Int, after token: String?, _ importance: Importance
  ) async throws -> UpstreamPage<ChannelRecord>

  /// A page of the user's channel changelog. `hasMembers`: with the channels' members and their read
  /// positions. A server may give them nevertheless.
  func channelChanges(
    of user: UserID, since: ChangesSince, hasMembers: Bool, _ importance: Importance
  ) async throws -> UpstreamChanges<ChannelRecord, ChannelURL>

  /// One channel, as the user sees it if one is given.
  func channel(
    _ url: ChannelURL, as user: UserID?, _ importance: Importance
  ) async throws -> ChannelRecord

  /// Whether the user is in the channel.
  func isMember(
    _ user: UserID, of url: ChannelURL, _ importance: Importance
  ) async throws -> Bool

  /// Whether the user is in the channel, or only invited.
  func memberState(
    _ user: UserID, of url: ChannelURL, _ importance: Importance
  ) async throws -> MembershipRecord.State

  /// A page of the channel's members, joined and invited, in the server's order.
  func members(
    of url: ChannelURL, limit: Int, after token: String?, _ importance: Importance
  ) async throws -> UpstreamPage<MemberRecord>

  /// The messages of one stretch, in any order.
  func messages(
    in url: ChannelURL, _ window: MessageWindow, _ importance: Importance
  ) async throws -> UpstreamPage<MessageRecord>

  /// One message.
  func message(
    _ id: Int64, in url: ChannelURL, _ importance: Importance
  ) async throws -> MessageRecord

  /// A page of the message changelog: edits, deletes, reactions and thread changes, but no new messages.
  func messageChanges(
    in url: ChannelURL, since: ChangesSince, _ importance: Importance
  ) async throws -> UpstreamChanges<MessageRecord, Int64>

  // Writes. One call sends at most one request to the upstream, however connections break. A write is
  // uncertain (B39) after `.unreachable` with `mayHaveArrived`, `.unusable`, `.unreadable` and `.canceled`;
  // after every other error nothing was done.

  /// Sends a message and returns it as the upstream stored it.
  func send(_ message: OutgoingMessage, _ importance: Importance) async throws -> MessageRecord

  /// Uploads a file and returns its url. `progress` is called on the HTTP client's thread with the number of
  /// bytes sent and of all bytes; it must be quick.
  func upload(
    _ file: OutgoingFile, progress: @escaping @Sendable (_ sent: Int64, _ total: Int64) -> Void
  ) async throws -> String

  /// Changes a confirmed message and returns it as it is then.
  func edit(
    message id: Int64, in url: ChannelURL, _ edit: OutgoingEdit, _ importance: Importance
  ) async throws -> MessageRecord

  /// Deletes a message. If it is gone already, the call throws a rejection with `isNotFound`.
  func delete(message id: Int64, in url: ChannelURL, _ importance: Importance) async throws

  /// Adds or removes a user's reaction. The upstream may reject adding one that exists with 400202, and
  /// removing one that does not with 400201.
  func react(
    to id: Int64, in url: ChannelURL, as user: UserID, key: String, isAdded: Bool, _ importance: Importance
  ) async throws

  /// Marks everything in the channel as read by the user.
  func markAsRead(_ url: ChannelURL, as user: UserID, _ importance: Importance) async throws
}

extension Upstream {
  /// For servers that only tell whether a user is a member: an invited user counts as outside.
  package func memberState(
    _ user: UserID, of url: ChannelURL, _ importance: Importance
  ) async throws -> MembershipRecord.State {
    try await isMember(user, of: url, importance) ? .joined : .outside
  }
}

/// The orders in which channels are listed.
package enum ChannelOrder: Sendable {
  /// The channel with the newest message first.
  case lastMessage
  /// The newest channel first. No channel moves in this order while its pages are read.
  case creation
}
