import SQLite

@testable import ChatCache

/// All rows of a cache, as text, to compare two caches.
///
/// Without the columns that may differ between two runs that stored the same: the log's sequences, which are
/// never used twice, and the times of commits.
struct Contents: Equatable, CustomStringConvertible {
  private static let passing: Set<String> = [
    "seq", "at", "version", "first_version", "gained_version", "sweep", "seen_at", "probed_at", "ended_at",
    "confirmed_at", "deleted_at", "accepted_at", "expires_at", "next_try_at", "dispatched_at", "opened_at",
    "accessed_at", "closed_at", "refused_age", "closed_age", "shown_at", "begun_at", "begun_seq",
    "changed_seq", "listing", "pages",
  ]
  private static let ownTables: Set<String> = ["meta", "run"]

  private(set) var rows: [String] = []

  init(of cache: Cache) throws {
    rows = try cache.read { reader in
      var found: [String] = []
      for table in try Contents.tables(reader) where !Contents.ownTables.contains(table) {
        let columns = try Contents.columns(of: table, reader).filter {
          !Contents.passing.contains($0) && !(table == "channel" && $0 == "updated_at")
        }
        let texts = columns.map { "quote(\"\($0)\")" }.joined(separator: " || ' ' || ")
        var rows = try reader.db.rows(composed: "SELECT \(texts) FROM \"\(table)\"")
        while let row = try rows.next() { found.append("\(table): \(row.string(0))") }
      }
      return found.sorted()
    }
  }

  /// The rows that only one of the two has. Equal rows are counted.
  func difference(from other: Contents) -> String {
    var counts: [String: Int] = [:]
    for row in rows { counts[row, default: 0] += 1 }
    for row in other.rows { counts[row, default: 0] -= 1 }
    return counts.filter { $0.value != 0 }.map { "\($0.value > 0 ? "+" : "-") \($0.key)" }.sorted()
      .joined(separator: "\n")
  }

  var description: String { rows.joined(separator: "\n") }

  private static func tables(_ reader: CacheReader) throws -> [String] {
    try reader.db.all("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'") {
      $0.string(0)
    }
  }

  private static func columns(of table: String, _ reader: CacheReader) throws -> [String] {
    var rows = try reader.db.rows(composed: "SELECT name FROM pragma_table_info('\(table)')")
    var names: [String] = []
    while let row = try rows.next() { names.append(row.string(0)) }
    return names
  }
}
