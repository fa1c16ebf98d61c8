import ChatModel
import SQLite

// What is remembered of the upstream as a whole: what it does not offer, and the link's generation.

extension CacheReader {
  /// Capabilities that were probed: whether the upstream offers each (B32).
  package func capabilities() throws -> [Capability: Bool] {
    var known: [Capability: Bool] = [:]
    var rows = try db.rows("SELECT name, offered FROM capability")
    while let row = try rows.next() {
      if let capability = Capability(rawValue: row.string(0)) { known[capability] = row.bool(1) }
    }
    return known
  }

  /// The highest generation the link ever had here: the next start's is higher, so that no tail confirmed
  /// before it counts as live (B25).
  package func linkGeneration() throws -> Int64 {
    try db.first("SELECT value FROM meta WHERE key = 'link_generation'") { $0.int64(0) } ?? 0
  }
}

extension CacheWriter {
  /// Remembers whether the upstream offers this.
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

  /// One event for everybody: the link stands so, in that generation (B3).
  package func announce(link: String, generation: Int64) throws {
    try db.run(
      """
      INSERT INTO meta (key, value)
      VALUES ('link_generation', ?1)
      ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)
      """
    ) { $0.bind(1, generation) }
    var change = Change(.connection, .channelRefresh)
    change.reference = link
    try append(change)
  }
}
