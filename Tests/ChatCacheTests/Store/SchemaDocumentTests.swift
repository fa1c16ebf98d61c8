import ChatModel
import Glibc
import SQLite
import Testing

@testable import ChatCache

/// docs/schema.md, for people who open the file.
@Suite struct SchemaDocumentTests {
  private static func document() throws -> String {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let file = try #require(fopen("/\(root)/docs/schema.md", "re"))
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    return String(decoding: bytes[..<fread(&bytes, 1, bytes.count, file)], as: UTF8.self)
  }

  private static func queries() throws -> [String] {
    try document().matches(of: #/```sql\n([^`]+?);\n```/#).map { String($0.1) }
  }

  @Test("each of the five questions in the schema's document has an answer")
  func questions() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest(
      (1...30).map { ChannelWithMessages.message($0, at: $0 * 10, sender: "alice") }, limit: 10)
    let queries = try Self.queries()
    #expect(queries.count == 5)
    for query in queries {
      let rows = try world.cache.read { reader in
        var rows = try reader.db.rows(composed: query)
        var count = 0
        while try rows.next() != nil { count += 1 }
        return count
      }
      #expect(rows > 0, "\(query)")
    }
  }

  @Test("the schema's document names every table")
  func tables() throws {
    let document = try Self.document()
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let names = try world.cache.read { reader in
      try reader.db.all("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'") {
        $0.string(0)
      }
    }
    for name in names {
      let isNamed = document.contains("`\(name)`")
      #expect(isNamed, "\(name)")
    }
  }
}
