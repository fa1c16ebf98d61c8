import TestFolders
import Testing

@testable import ChatCache
@testable import SQLite

/// SQLite's query plans for the cache's statements. The statements are read from the sources, and explained
/// over an empty cache: a statement that scans a table there scans it among a million messages, too.
@Suite struct StatementTests {
  /// The texts in the cache's sources that are whole statements.
  private static let statements: [(path: String, sql: String)] = Repository.files(
    below: "Sources/ChatCache", suffix: ".swift"
  ).flatMap { path in
    let parts = Repository.text(path).split(separator: "\"\"\"", omittingEmptySubsequences: false)
    let blocks = parts.indices.filter { $0 % 2 == 1 }.map { String(parts[$0]) }
    let lines = parts.indices.filter { $0 % 2 == 0 }.flatMap { index in
      parts[index].matches(of: #/"((?:SELECT|UPDATE|DELETE) [^"\n]*)"/#).map { String($0.1) }
    }
    return (blocks + lines).filter {
      $0.contains(#/^\s*(SELECT|UPDATE|DELETE|WITH)\b/#) && !$0.contains("\\(")
    }.map { (path, $0) }
  }

  private static func plan(_ sql: String, _ reader: CacheReader) throws -> [String] {
    var rows = try reader.db.rows(composed: "EXPLAIN QUERY PLAN " + sql)
    var steps: [String] = []
    while let row = try rows.next() { steps.append(row.string(3)) }
    return steps
  }

  @Test("B64: a message is found by its id through the index, never by a walk over its channel")
  func byID() throws {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("statements")))
    defer { cache.close() }
    let asked = Self.statements.filter {
      $0.sql.contains(#/(FROM|JOIN) message\b/#) && $0.sql.contains(#/\bmessage_id = \?/#)
    }
    #expect(asked.count >= 5, "\(asked.count)")
    try cache.read { reader in
      for (path, sql) in asked {
        let plan = try Self.plan(sql, reader)
        #expect(
          !plan.contains { $0.contains(#/SEARCH \w+ USING PRIMARY KEY \(channel=\?\)/#) },
          "\(path)\(sql)\(plan)")
      }
    }
  }

  @Test("B64: a deletion of so many rows enters the table at those rows, never by a walk over the others")
  func inParts() throws {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("statements")))
    defer { cache.close() }
    let deletions = Self.statements.filter {
      $0.sql.contains(#/^\s*DELETE FROM/#) && $0.sql.contains("LIMIT")
    }
    #expect(deletions.count >= 4, "\(deletions.count)")
    try cache.read { reader in
      for (path, sql) in deletions {
        let first = try Self.plan(sql, reader).first ?? ""
        #expect(
          !first.contains(#/\((channel|user)[=<]\?\)/#) && !first.hasPrefix("SCAN"), "\(path)\(sql)\(first)")
      }
    }
  }
}
