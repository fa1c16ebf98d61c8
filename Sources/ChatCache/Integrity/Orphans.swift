import ChatModel
import SQLite

// Rows whose channel or user is gone. They are deleted: the upstream can give the cached ones again, and
// nobody can ask for a view whose user is gone.

/// A table whose rows belong to channels or users.
struct OwnedTable: Sendable {
  let name: String
  let owner: String
  /// The column with the owner's key. An index begins with it.
  let column: String

  /// The tables that are checked.
  static let all = [
    OwnedTable(name: "message", owner: "channel", column: "channel"),
    OwnedTable(name: "tombstone", owner: "channel", column: "channel"),
    OwnedTable(name: "segment", owner: "channel", column: "channel"),
    OwnedTable(name: "channel_metadata", owner: "channel", column: "channel"),
    OwnedTable(name: "member", owner: "channel", column: "channel"),
    OwnedTable(name: "read_position", owner: "channel", column: "channel"),
    OwnedTable(name: "membership", owner: "channel", column: "channel"),
    OwnedTable(name: "membership", owner: "user", column: "user"),
    OwnedTable(name: "collection", owner: "user", column: "user"),
  ]
}

extension CacheReader {
  /// The most owners that one snapshot looks up.
  private static let owners = 5000

  /// The missing owners among the next ones after `reached`, and the last one that was looked up; nil: no
  /// owner is left. It goes from owner to owner, because a channel may have millions of rows.
  func missingOwners(
    of table: OwnedTable, after reached: Int64
  ) throws -> (missing: [Int64], reached: Int64?) {
    var missing: [Int64] = []
    var reached = reached
    for _ in 0..<CacheReader.owners {
      var rows = try db.rows(
        composed: """
          SELECT n.id, NOT EXISTS (SELECT 1 FROM \(table.owner) AS o WHERE o.id = n.id)
          FROM (SELECT min(\(table.column)) AS id FROM \(table.name) WHERE \(table.column) > ?1) AS n
          """
      ) { $0.bind(1, reached) }
      guard let row = try rows.next(), !row.isNull(0) else { return (missing, nil) }
      reached = row.int64(0)
      if row.bool(1) { missing.append(reached) }
    }
    return (missing, reached)
  }

  /// The number of rows of a missing owner; 0 if the owner is there now.
  func orphans(of owner: Int64, in table: OwnedTable) throws -> Int64 {
    var rows = try db.rows(
      composed: """
        SELECT count(*)
        FROM \(table.name)
        WHERE \(table.column) = ?1 AND NOT EXISTS (SELECT 1 FROM \(table.owner) WHERE id = ?1)
        """
    ) { $0.bind(1, owner) }
    return try rows.next()?.int64(0) ?? 0
  }
}

extension CacheWriter {
  /// Deletes the rows of an owner that is not there.
  func dropOrphans(of owner: Int64, in table: OwnedTable) throws {
    guard try reader.orphans(of: owner, in: table) > 0 else { return }
    try db.execute("DELETE FROM \(table.name) WHERE \(table.column) = \(owner)")
  }
}
