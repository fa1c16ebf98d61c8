import ChatModel
import Glibc
import Platform
import SQLite

// Reads a data directory without a lock and without changing it; a service may be using it (B65).

/// A cache's size, and its largest channels.
package struct CacheSummary: Sendable {
  /// Counts of all users.
  package let info: CacheInfo
  /// Bytes of the pages in use.
  package let usedBytes: Int64
  /// Bytes of the pages that are free.
  package let freeBytes: Int64
  /// The channels with the most bytes of messages, the largest first.
  package let largest: [CachedChannel]
}

/// What the command `clear` checks before it clears.
package struct ClearableCache: Sendable, Equatable {
  /// Whether the channel is cached; always true if no channel was given.
  package let isKnown: Bool
  /// The number of unsent messages and changes of all users.
  package let unsent: Int64
  /// A user in whose name a running service can be asked to clear: a member of the channel, or any known
  /// user.
  package let user: UserID?
}

extension Cache {
  /// The size of the directory's cache, and its `channels` largest channels.
  package static func summary(directory: String, channels: Int) throws -> CacheSummary {
    try reading(directory) { reader in
      let pages = try reader.db.pageCount()
      let largest =
        channels > 0
        ? try reader.cachedChannels(of: nil, by: .bytes, isDescending: true, limit: channels) : []
      return CacheSummary(
        info: try reader.info(of: nil), usedBytes: pages.usedBytes, freeBytes: pages.freeBytes,
        largest: largest)
    }
  }

  /// Whether the directory's cache, or the given channel, can be cleared, and the unsent rows that would be
  /// lost.
  package static func clearable(directory: String, channel: ChannelURL?) throws -> ClearableCache {
    try reading(directory) { reader in
      let key = try channel.flatMap { try reader.channelKey(of: $0) }
      let user = try reader.db.first(
        """
        SELECT u.user_id
        FROM user AS u
        WHERE u.is_removed = 0
          AND (?1 IS NULL OR EXISTS (SELECT 1 FROM membership AS m WHERE m.user = u.id AND m.channel = ?1))
        ORDER BY u.id
        LIMIT 1
        """
      ) {
        $0.bind(1, key?.rawValue)
      } _: {
        UserID($0.string(0))
      }
      return ClearableCache(
        isKnown: channel == nil || key != nil, unsent: try reader.info(of: nil).unsent, user: user)
    }
  }

  /// Opens the directory's cache for reading only. Throws if it does not have this program's schema.
  static func readOnly(_ directory: String) throws -> Connection {
    let path = directory + "/perch.db"
    guard access(path, R_OK) == 0 else {
      throw CacheError.file(path: path, reason: String(cString: strerror(errno)))
    }
    let connection = try Connection(path: path, mode: .readOnly)
    let found = try connection.read { db in try db.first("PRAGMA user_version") { $0.int64(0) } ?? 0 }
    guard found <= Migration.newest else {
      throw CacheError.newerSchema(found: found, known: Migration.newest)
    }
    guard found == Migration.newest else {
      throw CacheError.unreadable("its schema is \(found); `perch serve` migrates it to \(Migration.newest)")
    }
    return connection
  }

  /// Lends one snapshot of the directory's cache, on a read-only connection.
  private static func reading<Result>(
    _ directory: String, _ body: (CacheReader) throws -> Result
  ) throws -> Result {
    do {
      let connection = try readOnly(directory)
      let log = CommitLog(
        epoch: 0, run: 0, last: 0, age: FileAge(startedAt: 0, atStart: 0, clock: .system))
      return try connection.read { try body(CacheReader(db: $0, log: log, opened: log.head)) }
    } catch let error as SQLiteError {
      throw CacheError(error)
    }
  }
}
