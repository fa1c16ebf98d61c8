import ChatModel
import SQLite

// The check of a large file's tables and indexes while the service writes. SQLite's own check of the whole
// file would hold one snapshot for minutes, and the write-ahead log would grow meanwhile. So each table is
// checked in a snapshot of its own: a small one by SQLite, a large one by comparing how many entries its
// indexes have, and messages channel by channel, entry by entry (`EntriesCheck`).
// The indexes of UNIQUE constraints are not compared. `perch check` runs SQLite's own check.

/// A table with its indexes.
struct CheckedTable: Sendable {
  let name: String
  let indexes: [CheckedIndex]
  /// A column that no index has. The statement that counts the table's rows reads it, so that SQLite counts
  /// in the table and not in an index. Nil: there is no such column, and SQLite checks the table itself,
  /// however large.
  let column: String?

  func count(ofRowsIn index: CheckedIndex) -> String? {
    let rows = index.condition.map { "total(\($0))" } ?? "count(*)"
    return column.map { "SELECT \(rows) + 0 * count(\($0)) FROM \(name) NOT INDEXED" }
  }

  func count(ofEntriesIn index: CheckedIndex) -> String {
    "SELECT count(*) FROM \(name) INDEXED BY \(index.name)" + (index.condition.map { " WHERE \($0)" } ?? "")
  }
}

/// An index, and the condition if it is a partial one.
struct CheckedIndex: Sendable {
  let name: String
  let condition: String?
}

extension CacheReader {
  /// The most pages of a file that SQLite checks in one snapshot: 256 MiB.
  static let pagesCheckedAtOnce = (256 << 20) / WALLimits.pageBytes
  /// The most rows of a table that SQLite checks in one snapshot.
  private static let rowsCheckedAtOnce = 200_000

  /// All tables but `message`.
  func checkedTables() throws -> [CheckedTable] {
    let tables = try db.all("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'message'") {
      $0.string(0)
    }
    return try tables.map { table in
      let column = try db.first(
        """
        SELECT name
        FROM pragma_table_info(?1)
        WHERE name NOT IN (
          SELECT x.name
          FROM pragma_index_list(?1) AS l
          CROSS JOIN pragma_index_xinfo(l.name) AS x
          WHERE l.origin <> 'pk' AND x.name IS NOT NULL
        )
        LIMIT 1
        """
      ) {
        $0.bind(1, table)
      } _: {
        $0.string(0)
      }
      let indexes = try db.all(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ?1 AND sql IS NOT NULL"
      ) {
        $0.bind(1, table)
      } _: {
        CheckedIndex(name: $0.string(0), condition: CacheReader.condition(ofIndex: $0.string(1)))
      }
      return CheckedTable(name: table, indexes: indexes, column: column)
    }
  }

  private static func condition(ofIndex sql: String) -> String? {
    sql.firstRange(of: "WHERE ").map { String(sql[$0.upperBound...]) }
  }

  /// The report of one table.
  func report(of table: CheckedTable, rowsAtOnce: Int = CacheReader.rowsCheckedAtOnce) throws -> FileReport {
    var report = FileReport()
    var more = try db.rows(composed: "SELECT 1 FROM \(table.name) LIMIT 1 OFFSET \(rowsAtOnce)")
    guard try table.column != nil && more.next() != nil else {
      var rows = try db.rows(composed: "PRAGMA integrity_check(\(table.name))")
      while let row = try rows.next() {
        let line = row.string(0)
        if line != "ok" { report.add(line) }
      }
      return report
    }
    for index in table.indexes {
      guard let ofTable = table.count(ofRowsIn: index) else { continue }
      var rows = try db.rows(composed: "SELECT (\(ofTable)), (\(table.count(ofEntriesIn: index)))")
      if let row = try rows.next(), row.int64(0) != row.int64(1) {
        report.add("wrong # of entries in index \(index.name)")
      }
    }
    return report
  }
}
