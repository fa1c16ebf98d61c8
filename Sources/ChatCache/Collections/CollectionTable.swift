import ChatModel
import SQLite

// The table `collection`: what a start needs to take the clients' views up again (B22).

/// A view as it is stored.
package struct StoredCollection: Sendable, Equatable {
  /// What a view shows.
  package enum Kind: String, Sendable { case channels, messages }

  /// What a view is owed: its first answer; a success, where it was told that the answer could not be had and
  /// will be tried again (B16).
  package enum Owed: String, Sendable { case nothing, answer, success }

  /// Its name.
  package let id: String
  /// Whose it is.
  package let user: UserKey
  /// The same, by the upstream's name.
  package let userID: UserID
  /// What it shows.
  package let kind: Kind
  /// Where, if it shows messages.
  package let channel: (key: ChannelKey, url: ChannelURL)?
  /// What was asked at the opening: a JSON object.
  package let query: [UInt8]
  /// What was loaded: a JSON object.
  package var loaded: [UInt8]
  /// When somebody last asked for it, ms.
  package var accessedAt: Int64
  /// What it is owed.
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

  /// Whether both say the same.
  package static func == (one: StoredCollection, other: StoredCollection) -> Bool {
    one.id == other.id && one.user == other.user && one.kind == other.kind
      && one.channel?.key == other.channel?.key && one.query == other.query && one.loaded == other.loaded
      && one.accessedAt == other.accessedAt
  }
}

extension CacheReader {
  /// Every view there is.
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
  /// Whether the view's user and channel are cached still: all may have been cleared while it was opened
  /// (B58).
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
  /// Stores a view that was just opened or begins anew under its name, and stamps its channel (B22).
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

  /// Remembers what a view has loaded.
  package func setLoaded(_ loaded: [UInt8], of collection: String) throws {
    try db.run("UPDATE collection SET loaded = ?2, accessed_at = ?3 WHERE id = ?1") {
      $0.bind(1, collection)
      $0.bind(2, copyOf: loaded)
      $0.bind(3, now)
    }
  }

  /// Remembers when views were last asked for.
  package func setAccessed(_ times: TextMap<Int64>) throws {
    for (id, time) in times {
      try db.run("UPDATE collection SET accessed_at = ?2 WHERE id = ?1") {
        $0.bind(1, id)
        $0.bind(2, time)
      }
    }
  }

  /// Forgets a view, and stamps its channel (B22). False where there was none.
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
