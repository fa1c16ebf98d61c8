import ChatCache
import ChatModel

/// The upstream of a service without one: each call fails, so everything is served from the cache.
package struct NoUpstream: Upstream {
  private static let absence = UpstreamError.unreachable(reason: "no upstream", mayHaveArrived: false)

  /// No upstream.
  package init() {}

  /// See `Upstream`.
  package func probe() async throws { throw NoUpstream.absence }

  /// See `Upstream`.
  package func offersUploads(_ importance: Importance) async throws -> Bool { throw NoUpstream.absence }

  /// See `Upstream`.
  package func user(_ user: UserID, _ importance: Importance) async throws -> UserRecord {
    throw NoUpstream.absence
  }

  /// See `Upstream`.
  package func channels(
    of user: UserID, order: ChannelOrder, limit: Int, after token: String?, _ importance: Importance
  ) async throws -> UpstreamPage<ChannelRecord> { throw NoUpstream.absence }

  /// See `Upstream`.
  package func channelChanges(
    of user: UserID, since: ChangesSince, hasMembers: Bool, _ importance: Importance
  ) async throws -> UpstreamChanges<ChannelRecord, ChannelURL> { throw NoUpstream.absence }

  /// See `Upstream`.
  package func channel(
    _ url: ChannelURL, as user: UserID?, _ importance: Importance
  ) async throws -> ChannelRecord { throw NoUpstream.absence }

  /// See `Upstream`.
  package func isMember(
    _ user: UserID, of url: ChannelURL, _ importance: Importance
  ) async throws -> Bool { throw NoUpstream.absence }

  /// See `Upstream`.
  package func members(
    of url: ChannelURL, limit: Int, after token: String?, _ importance: Importance
  ) async throws -> UpstreamPage<MemberRecord> { throw NoUpstream.absence }

  /// See `Upstream`.
  package func messages(
    in url: ChannelURL, _ window: MessageWindow, _ importance: Importance
  ) async throws -> UpstreamPage<MessageRecord> { throw NoUpstream.absence }

  /// See `Upstream`.
  package func message(
    _ id: Int64, in url: ChannelURL, _ importance: Importance
  ) async throws -> MessageRecord { throw NoUpstream.absence }

  /// See `Upstream`.
  package func messageChanges(
    in url: ChannelURL, since: ChangesSince, _ importance: Importance
  ) async throws -> UpstreamChanges<MessageRecord, Int64> { throw NoUpstream.absence }

  /// See `Upstream`.
  package func send(_ message: OutgoingMessage, _ importance: Importance) async throws -> MessageRecord {
    throw NoUpstream.absence
  }

  /// See `Upstream`.
  package func upload(
    _ file: OutgoingFile, progress: @escaping @Sendable (_ sent: Int64, _ total: Int64) -> Void
  ) async throws -> String { throw NoUpstream.absence }

  /// See `Upstream`.
  package func edit(
    message id: Int64, in url: ChannelURL, _ edit: OutgoingEdit, _ importance: Importance
  ) async throws -> MessageRecord { throw NoUpstream.absence }

  /// See `Upstream`.
  package func delete(message id: Int64, in url: ChannelURL, _ importance: Importance) async throws {
    throw NoUpstream.absence
  }

  /// See `Upstream`.
  package func react(
    to id: Int64, in url: ChannelURL, as user: UserID, key: String, isAdded: Bool, _ importance: Importance
  ) async throws { throw NoUpstream.absence }

  /// See `Upstream`.
  package func markAsRead(_ url: ChannelURL, as user: UserID, _ importance: Importance) async throws {
    throw NoUpstream.absence
  }
}
