import SQLite

/// The keys of the table `meta`. Each of its rows is one value of the whole database file.
enum Meta: String {
  /// The identity of the event log.
  case epoch
  /// The upstream to which the file is bound.
  case upstream
  /// The number of empty commits after failed ones.
  case marker
  /// The first sequence from which the log is complete.
  case oldestEvent = "oldest_event"
  /// The highest clock ever seen (ms).
  case latestMoment = "latest_moment"
  /// The sum of the times between runs (ms).
  case lost
  /// The sequence of the event with which everything was cleared.
  case cleared
  /// The sequence up to which cleared rows are left to delete.
  case clearing
  /// An eviction pass is under way.
  case evicting
  /// The stretch that the pass evicted and of which no event tells yet.
  case untoldEviction = "untold_eviction"
  /// How many channels have become crowded.
  case crowded
}

extension ReadAccess {
  /// The value of that name as a number; nil: there is none.
  func meta(_ name: Meta) throws -> Int64? { try meta(name) { $0.int64(0) } }

  /// The value of that name as a text; nil: there is none.
  func metaText(_ name: Meta) throws -> String? { try meta(name) { $0.string(0) } }

  private func meta<Value>(_ name: Meta, _ body: (Row) throws -> Value) throws -> Value? {
    try first("SELECT value FROM meta WHERE key = ?1") {
      $0.bind(1, name.rawValue)
    } _: {
      try body($0)
    }
  }
}

extension WriteAccess {
  /// Sets the value of that name.
  func set(_ name: Meta, _ value: Int64) throws { try set(name) { $0.bind(2, value) } }

  /// Sets the value of that name.
  func set(_ name: Meta, _ text: String) throws { try set(name) { $0.bind(2, text) } }

  private func set(_ name: Meta, _ bind: (Statement) -> Void) throws {
    try run(
      """
      INSERT INTO meta (key, value)
      VALUES (?1, ?2)
      ON CONFLICT (key) DO UPDATE SET value = excluded.value
      """
    ) {
      $0.bind(1, name.rawValue)
      bind($0)
    }
  }

  /// Counts one more.
  func count(_ name: Meta) throws { try set(name, (reading.meta(name) ?? 0) + 1) }

  /// Removes the value of that name.
  func remove(_ name: Meta) throws {
    try run("DELETE FROM meta WHERE key = ?1") { $0.bind(1, name.rawValue) }
  }
}
