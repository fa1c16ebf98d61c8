import ChatModel
import SQLite

// The table `collection`: the clients' views, which go on after a restart (B22).

/// A view as it is stored.
package struct StoredCollection: Sendable, Equatable {
  /// What a view shows.
  package enum Kind: String, Sendable { case channels, messages }

  /// An event that the view still has to tell: its first answer, or a success after it told that the first
  /// answer failed and will be tried again (B16).
  package enum Owed: String, Sendable { case nothing, answer, success }

  /// The view's id.
  package let id: String
  /// The user who opened the view.
  package let user: UserKey
  /// The same user's id at the upstream.
  package let userID: UserID
  /// The kind of rows it shows.
  package let kind: Kind
  /// The channel whose messages it shows; nil for a list of channels. Also nil if everything was cleared and
  /// the view has not begun anew since (B58).
  package let channel: (key: ChannelKey, url: ChannelURL)?
  /// The parameters with which the client opened the view: a JSON object.
  package let query: [UInt8]
  /// The window that the client has loaded: a JSON object.
  package var loaded: [UInt8]
  /// When the client last asked for the view, ms.
  package var accessedAt: Int64
  /// The event that the view still has to tell.
  package var owes = Owed.nothing

  /// A view to be stored.
  package init(
    id: String, user: UserKey, userID: UserID, kind: Kind, channel: (key: ChannelKey, url: ChannelURL)? = nil,
    query: [UInt8], loaded: [UInt8], accessedAt: Int64
  ) {
    self.id = id
    self.user = user
    self.userID = userID
    self.kind = kind
    self.channel = channel
    self.query = query
    self.loaded = loaded
    self.accessedAt = accessedAt
  }

  /// Compares all fields but `owes`; the channel and the user by their keys.
  package static func == (one: StoredCollection, other: StoredCollection) -> Bool {
    one.id == other.id && one.user == other.user && one.kind == other.kind
      && one.channel?.key == other.channel?.key && one.query == other.query && one.loaded == other.loaded
      && one.accessedAt == other.accessedAt
  }
}

extension CacheReader {
  /// All stored views.
  package func collections() throws -> [StoredCollection] {
    try db.all(
      """
      SELECT o.id, o.user, u.user_id, o.kind, o.channel, o.channel_url, o.query, o.loaded, o.accessed_at,
        o.owes
      FROM collection AS o
      JOIN user AS u ON u.id = o.user
      """
    ) { row in
      var stored = StoredCollection(
        id: row.string(0), user: UserKey(row.int64(1)), userID: UserID(row.string(2)),
        kind: StoredCollection.Kind(rawValue: row.string(3)) ?? .channels,
        channel: row.int64OrNil(4).map { (ChannelKey($0), ChannelURL(row.string(5))) },
        query: Array(row.bytes(6)), loaded: Array(row.bytes(7)), accessedAt: row.int64(8))
      stored.owes = StoredCollection.Owed(rawValue: row.string(9)) ?? .nothing
      return stored
    }
  }
}

extension CacheReader {
  /// Whether the view's first answer is still to come. False: the upstream answered, or refused for good.
  package func owesAnswer(_ collection: String) throws -> Bool {
    try db.first("SELECT owes FROM collection WHERE id = ?1") {
      $0.bind(1, collection)
    } _: {
      $0.string(0)
    }.map { StoredCollection.Owed(rawValue: $0) != .nothing } ?? false
  }
}

extension CacheReader {
  /// Whether the log still has that epoch. `Cache.cursor` tells of a new one only after its commit.
  package func isOf(epoch: UInt64) throws -> Bool { try db.meta(.epoch) == Int64(bitPattern: epoch) }

  /// Whether the view of messages has begun anew in the present epoch (B58).
  package func hasBegunAnew(_ collection: String) throws -> Bool {
    try db.first("SELECT channel IS NOT NULL FROM collection WHERE id = ?1") {
      $0.bind(1, collection)
    } _: {
      $0.bool(0)
    } ?? false
  }
}

extension CacheReader {
  /// Whether the view's user and channel are still cached. They may have been cleared while the view was
  /// being opened (B58).
  package func holdsGround(of collection: StoredCollection) throws -> Bool {
    try db.first(
      """
      SELECT
        EXISTS (SELECT 1 FROM user WHERE id = ?1)
        AND (?2 IS NULL OR EXISTS (SELECT 1 FROM channel WHERE id = ?2))
      """
    ) {
      $0.bind(1, collection.user.rawValue)
      $0.bind(2, collection.channel?.key.rawValue)
    } _: {
      $0.bool(0)
    } ?? false
  }
}

extension CacheWriter {
  /// Stores a view that was just opened, or that begins anew under the same id, and notes that its channel
  /// was used (B22).
  package func open(_ collection: StoredCollection) throws {
    try db.run(
      """
      INSERT INTO collection (
        id, user, kind, channel, channel_url, query, loaded, opened_at, accessed_at, owes
      )
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, iif(?3 = 'messages', 'answer', 'nothing'))
      ON CONFLICT (id) DO UPDATE
      SET channel = excluded.channel, loaded = excluded.loaded, accessed_at = excluded.accessed_at,
        owes = excluded.owes
      """
    ) {
      $0.bind(1, collection.id)
      $0.bind(2, collection.user.rawValue)
      $0.bind(3, collection.kind.rawValue)
      $0.bind(4, collection.channel?.key.rawValue)
      $0.bind(5, collection.channel?.url.text ?? "")
      $0.bind(6, copyOf: collection.query)
      $0.bind(7, copyOf: collection.loaded)
      $0.bind(8, now)
    }
    try stamp(collection.channel?.key)
  }

  /// Stores a view's loaded window.
  package func setLoaded(_ loaded: [UInt8], of collection: String) throws {
    try db.run("UPDATE collection SET loaded = ?2, accessed_at = ?3 WHERE id = ?1") {
      $0.bind(1, collection)
      $0.bind(2, copyOf: loaded)
      $0.bind(3, now)
    }
  }

  /// Stores when clients last asked for the views.
  package func setAccessed(_ times: TextMap<Int64>) throws {
    for (id, time) in times {
      try db.run("UPDATE collection SET accessed_at = ?2 WHERE id = ?1") {
        $0.bind(1, id)
        $0.bind(2, time)
      }
    }
  }

  /// Deletes a view, and notes that its channel was used (B22). False: there was no such view.
  @discardableResult
  package func dispose(collection: String, channel: ChannelKey?) throws -> Bool {
    let removed = try db.run("DELETE FROM collection WHERE id = ?1") { $0.bind(1, collection) }
    try stamp(channel)
    return removed > 0
  }

  private func stamp(_ channel: ChannelKey?) throws {
    guard let channel else { return }
    try db.run("UPDATE channel SET accessed_at = ?2 WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, now)
    }
  }
}
