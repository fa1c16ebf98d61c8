import ChatModel
import SQLite

// The log as one chat view may read it: changes for all members of its channel, for its user alone, and for
// the view itself. What other members are told alone costs nothing.

/// A chat view, as its log needs it.
package struct LoggedView: Sendable {
  fileprivate let id: String
  fileprivate let user: UserKey
  fileprivate let channel: ChannelKey

  /// The view `id` that `user` has of the channel.
  package init(_ id: String, of user: UserKey, in channel: ChannelKey) {
    self.id = id
    self.user = user
    self.channel = channel
  }

  /// Whether the change concerns the view, and maybe others.
  private func isConcerned(by change: Change) -> Bool {
    change.collection ?? id == id && change.user ?? user == user
  }

  /// Whether the change is one of the channel that concerns the view.
  fileprivate func reads(_ change: Change) -> Bool { change.channel == channel && isConcerned(by: change) }

  /// Whether the view may tell something because of the change.
  fileprivate func mayTell(_ change: Change) -> Bool {
    if change.collection == nil, let other = change.channel, other != channel { return false }
    return isConcerned(by: change)
  }
}

extension CacheReader {
  /// The changes of the view's channel after `sequence` that concern the view, oldest first, at most `limit`.
  package func changes(
    of view: LoggedView, after sequence: Int64, limit: Int
  ) throws -> [LoggedChange] {
    if let tail = try tail(after: sequence) {
      return Array(tail.lazy.filter { view.reads($0.change) }.prefix(limit))
    }
    return try db.all(
      """
      SELECT
        seq, at, kind, source, channel, user, collection, from_at, from_id, to_at, to_id,
        reference, detail
      FROM event
      WHERE seq IN (
        SELECT seq
        FROM event INDEXED BY event_of_channel
        WHERE channel = ?1 AND user IS NULL AND collection IS NULL AND seq > ?4
        UNION ALL
        SELECT seq
        FROM event INDEXED BY event_by_user
        WHERE user = ?2 AND seq > ?4 AND channel = ?1 AND (collection IS NULL OR collection = ?3)
        UNION ALL
        SELECT seq
        FROM event INDEXED BY event_by_collection
        WHERE collection = ?3 AND seq > ?4 AND channel = ?1 AND user IS NULL
        ORDER BY 1
        LIMIT ?5
      )
      ORDER BY seq
      """
    ) {
      view.bind(to: $0)
      $0.bind(4, sequence)
      $0.bind(5, limit)
    } _: {
      try CacheReader.change($0)
    }
  }

  /// Whether something after `sequence` and up to `end` concerns the view, or may do so.
  package func concerns(_ view: LoggedView, after sequence: Int64, upTo end: Int64 = .max) throws -> Bool {
    guard end > sequence else { return false }
    if let tail = try tail(after: sequence) {
      return tail.contains { $0.sequence <= end && view.mayTell($0.change) }
    }
    return try db.first(
      """
      SELECT
        EXISTS (
          SELECT 1
          FROM event INDEXED BY event_of_channel
          WHERE channel = ?1 AND user IS NULL AND collection IS NULL AND seq > ?4 AND seq <= ?5
        )
        OR EXISTS (
          SELECT 1
          FROM event INDEXED BY event_by_user
          WHERE user = ?2 AND seq > ?4 AND seq <= ?5 AND coalesce(channel, ?1) = ?1 AND collection IS NULL
        )
        OR EXISTS (
          SELECT 1
          FROM event INDEXED BY event_by_collection
          WHERE collection = ?3 AND seq > ?4 AND seq <= ?5 AND coalesce(user, ?2) = ?2
        )
        OR EXISTS (
          SELECT 1
          FROM event INDEXED BY event_for_all
          WHERE channel IS NULL AND user IS NULL AND seq > ?4 AND seq <= ?5 AND collection IS NULL
        )
      """
    ) {
      view.bind(to: $0)
      $0.bind(4, sequence)
      $0.bind(5, end)
    } _: {
      $0.bool(0)
    } ?? true
  }

  /// The users and views who are told something of what lies after `sequence` and up to `end`, but not all
  /// views of the channel are: of the channel, or of their connections.
  package func toldAlone(
    in channel: ChannelKey, after sequence: Int64, upTo end: Int64
  ) throws -> (users: Set<UserKey>, views: Set<ExactText>) {
    var told: (users: Set<UserKey>, views: Set<ExactText>) = ([], [])
    var rows = try db.rows(
      """
      SELECT user, collection
      FROM event
      WHERE seq > ?1 AND seq <= ?2
        AND (user IS NOT NULL OR collection IS NOT NULL)
        AND (channel = ?3 OR kind = ?4)
      """
    ) {
      $0.bind(1, sequence)
      $0.bind(2, end)
      $0.bind(3, channel.rawValue)
      $0.bind(4, ChangeKind.connection.rawValue)
    }
    while let row = try rows.next() {
      if let view = row.stringOrNil(1) {
        told.views.insert(ExactText(view))
      } else if let user = row.int64OrNil(0) {
        told.users.insert(UserKey(user))
      }
    }
    return told
  }
}

extension LoggedView {
  /// Binds the channel, the user and the view's id.
  fileprivate func bind(to statement: Statement) {
    statement.bind(1, channel.rawValue)
    statement.bind(2, user.rawValue)
    statement.bind(3, id)
  }
}
