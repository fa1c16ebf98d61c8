import ChatModel
import SQLite

// The log as one chat view may read it: changes for all members of its channel, for its user alone, and for
// the view itself. What other members are told alone costs nothing.

/// Selects the changes of the log that a chat view reads: those of its channel for all members, for its user
/// or for the view itself.
package struct LogScope: Sendable {
  fileprivate let view: String
  fileprivate let user: UserKey
  fileprivate let channel: ChannelKey

  /// The scope of the view with that id, which `user` has of the channel.
  package init(view: String, of user: UserKey, in channel: ChannelKey) {
    self.view = view
    self.user = user
    self.channel = channel
  }

  /// Whether the change is for the view, its user or everybody, in whatever channel.
  private func names(_ change: Change) -> Bool {
    change.collection ?? view == view && change.user ?? user == user
  }

  /// Whether the change is one of the channel that the view reads.
  fileprivate func has(_ change: Change) -> Bool { change.channel == channel && names(change) }

  /// Whether the view may tell something because of the change: the same, or one of no channel.
  fileprivate func mayTell(_ change: Change) -> Bool { change.channel ?? channel == channel && names(change) }

  /// Whether the view alone, or views of its user alone, may tell something because of the change.
  fileprivate func isOwn(_ change: Change) -> Bool { OwnChanges.counts(change) && mayTell(change) }
}

extension CacheReader {
  /// The changes of the scope's channel after `sequence`, oldest first, at most `limit`.
  package func changes(in scope: LogScope, after sequence: Int64, limit: Int) throws -> [LoggedChange] {
    if let tail = try tail(after: sequence) {
      return Array(tail.lazy.filter { scope.has($0.change) }.prefix(limit))
    }
    return try db.all(
      """
      SELECT
        seq, at, kind, source, channel, user, collection, from_at, from_id, to_at, to_id,
        reference, detail
      FROM event
      WHERE seq IN (
        SELECT seq
        FROM event INDEXED BY event_by_channel
        WHERE channel = ?1 AND user IS NULL AND seq > ?4 AND coalesce(collection, ?3) = ?3
        UNION ALL
        SELECT seq
        FROM event INDEXED BY event_by_channel
        WHERE channel = ?1 AND user = ?2 AND seq > ?4 AND coalesce(collection, ?3) = ?3
        ORDER BY 1
        LIMIT ?5
      )
      ORDER BY seq
      """
    ) {
      scope.bind(to: $0)
      $0.bind(4, sequence)
      $0.bind(5, limit)
    } _: {
      try CacheReader.change($0)
    }
  }

  /// Whether a view of that scope may tell something because of a change after `sequence` and up to `end`.
  package func concerns(_ scope: LogScope, after sequence: Int64, upTo end: Int64 = .max) throws -> Bool {
    guard end > sequence else { return false }
    if let tail = try tail(after: sequence) {
      return tail.contains { $0.sequence <= end && scope.mayTell($0.change) }
    }
    return try db.first(
      """
      SELECT
        EXISTS (
          SELECT 1
          FROM event INDEXED BY event_by_channel
          WHERE channel = ?1 AND user IS NULL AND seq > ?4 AND seq <= ?5 AND coalesce(collection, ?3) = ?3
        )
        OR EXISTS (
          SELECT 1
          FROM event INDEXED BY event_by_channel
          WHERE channel = ?1 AND user = ?2 AND seq > ?4 AND seq <= ?5 AND coalesce(collection, ?3) = ?3
        )
        OR EXISTS (
          SELECT 1
          FROM event INDEXED BY event_by_user
          WHERE user = ?2 AND seq > ?4 AND seq <= ?5 AND channel IS NULL AND coalesce(collection, ?3) = ?3
        )
        OR EXISTS (
          SELECT 1
          FROM event INDEXED BY event_for_all
          WHERE channel IS NULL AND user IS NULL AND seq > ?4 AND seq <= ?5 AND coalesce(collection, ?3) = ?3
        )
      """
    ) {
      scope.bind(to: $0)
      $0.bind(4, sequence)
      $0.bind(5, end)
    } _: {
      $0.bool(0)
    } ?? true
  }

  /// Whether a view of that scope may tell something because of a change after `sequence` that other users'
  /// views do not tell. The user's counts do not count.
  package func hasOwn(_ scope: LogScope, after sequence: Int64) throws -> Bool {
    guard log.ownChanges.mayHave(scope.user, after: sequence) else { return false }
    if let tail = try tail(after: sequence) { return tail.contains { scope.isOwn($0.change) } }
    return try db.first(
      """
      SELECT EXISTS (
        SELECT 1
        FROM event INDEXED BY event_by_user
        WHERE user = ?2 AND seq > ?4 AND kind <> ?5 AND coalesce(channel, ?1) = ?1
          AND coalesce(collection, ?3) = ?3
      )
      """
    ) {
      scope.bind(to: $0)
      $0.bind(4, sequence)
      $0.bind(5, ChangeKind.membership.rawValue)
    } _: {
      $0.bool(0)
    } ?? true
  }

  /// The users and views that changes after `sequence` and up to `end` name: changes of the channel, and of
  /// connections. They are told something that other views of the channel are not.
  package func named(
    in channel: ChannelKey, after sequence: Int64, upTo end: Int64
  ) throws -> (users: Set<UserKey>, views: Set<ExactText>) {
    var named: (users: Set<UserKey>, views: Set<ExactText>) = ([], [])
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
        named.views.insert(ExactText(view))
      } else if let user = row.int64OrNil(0) {
        named.users.insert(UserKey(user))
      }
    }
    return named
  }
}

extension Cache {
  /// Whether something may have changed for the user alone after `sequence`. The user's counts do not count.
  package func mayHaveOwn(_ user: UserKey, after sequence: Int64) -> Bool {
    log.ownChanges.mayHave(user, after: sequence)
  }
}

extension LogScope {
  /// Binds the channel, the user and the view's id.
  fileprivate func bind(to statement: Statement) {
    statement.bind(1, channel.rawValue)
    statement.bind(2, user.rawValue)
    statement.bind(3, view)
  }
}
