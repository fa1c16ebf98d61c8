import ChatModel
import SQLite

// The stored facts about the upstream as a whole: its capabilities, and the state of the link.

extension CacheReader {
  /// The capabilities that were probed, and whether the upstream offers each (B32). A refusal is left out a
  /// day after it was stored, and if it was stored later than `now` (wall ms).
  package func capabilities(now: Int64) throws -> [Capability: Bool] {
    var known: [Capability: Bool] = [:]
    var rows = try db.rows("SELECT name, offered, probed_at FROM capability")
    while let row = try rows.next() {
      let isFresh = row.bool(1) || (now - Limits.capabilityMilliseconds...now).contains(row.int64(2))
      if isFresh, let capability = Capability(rawValue: row.string(0)) { known[capability] = row.bool(1) }
    }
    return known
  }
}

extension CacheWriter {
  /// Stores whether the upstream offers the capability.
  package func learn(_ capability: Capability, isOffered: Bool) throws {
    try db.run(
      """
      INSERT INTO capability (name, offered, probed_at)
      VALUES (?1, ?2, ?3)
      ON CONFLICT (name) DO UPDATE
      SET offered = excluded.offered, probed_at = excluded.probed_at
      """
    ) {
      $0.bind(1, capability.rawValue)
      $0.bind(2, isOffered)
      $0.bind(3, now)
    }
  }

  /// Appends one event for all users with the link's state (B3).
  package func announce(link: String) throws {
    var change = Change(.connection, .channelRefresh)
    change.reference = link
    try append(change)
  }
}
