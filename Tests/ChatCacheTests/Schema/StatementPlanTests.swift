import CSQLite
import ChatModel
import Platform
import Testing

@testable import ChatCache
@testable import SQLite

/// SQLite's query plans for the statements that answer requests. The statements are taken from the connection
/// that ran them, so the explained ones are those that run.
@Suite struct StatementPlanTests {
  /// The statements that the reader's connection has ready.
  static func statements(of reader: CacheReader) -> Set<String> {
    let connection = reader.db.connection.handle
    var found: Set<String> = []
    var statement = sqlite3_next_stmt(connection, nil)
    while let next = statement {
      if let text = sqlite3_sql(next) { found.insert(String(cString: text)) }
      statement = sqlite3_next_stmt(connection, next)
    }
    return found.filter { $0.contains("FROM") && !$0.hasPrefix("EXPLAIN") }
  }

  private func plan(_ sql: String, _ reader: CacheReader) throws -> [String] {
    var rows = try reader.db.rows(composed: "EXPLAIN QUERY PLAN " + sql)
    var lines: [String] = []
    while let row = try rows.next() { lines.append(row.string(3)) }
    return lines
  }

  /// Reads everything that a request can ask for.
  private func readAll(_ reader: CacheReader, _ world: ChannelWithMessages) throws {
    let user = try #require(try reader.cachedUser(world.alice))
    let view = try #require(try reader.view(of: world.url, for: user.key))
    let position = Position.first(at: 50)
    for anchor in [
      PageAnchor.newest, .after(position, isInclusive: true), .around(position, isInclusive: true),
    ] {
      for parent in [nil, Int64(1)] {
        var query = MessagePageQuery(anchor)
        query.filter.parent = parent
        for parts in [[], MessageQuery.Parts.reactions] {
          query.filter.parts = parts
          let ground = try reader.ground(
            anchor, in: view, link: ChannelWithMessages.live, interval: 1000, now: 0)
          _ = try reader.page(query, in: view, on: ground)
        }
      }
    }
    _ = try reader.message(1, parts: [], in: view)
    _ = try reader.channel(view, parts: [.members, .metadata])
    _ = try reader.members(of: view, after: "", limit: 10)
    _ = try reader.unread(of: user.key)
  }

  @Test("B12 B64: every statement of a page, a channel or a total goes by an index, and none sorts")
  func walks() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...9).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    try world.cache.read { reader in
      // The cache's own threads ran earlier statements on this connection, which answer no request.
      let others = Self.statements(of: reader)
      try readAll(reader, world)
      let statements = Self.statements(of: reader).subtracting(others)
      #expect(statements.count >= 10, "\(statements.count)")
      for sql in statements {
        let plan = try plan(sql, reader)
        #expect(!plan.contains { $0.contains("TEMP B-TREE") }, "\(sql)\n\(plan)")
        let scans = plan.filter { $0.hasPrefix("SCAN") && !$0.contains(#/CONSTANT|VIRTUAL TABLE/#) }
        #expect(scans.isEmpty, "\(sql)\n\(plan)")
      }
    }
  }

  @Test(
    "B12: a page enters its channel's messages at the position and leaves them at its bound, in SQL or after")
  func bounds() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...9).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    try world.cache.read { reader in
      try readAll(reader, world)
      let pages = Self.statements(of: reader).filter { $0.contains("ORDER BY created_at") }
      #expect(pages.count == 6)
      for sql in pages {
        let plan = try plan(sql, reader)
        let step = try #require(plan.first)
        let isThread = sql.contains("message_by_parent")
        #expect(plan.count == 1 && step.contains(isThread ? "message_by_parent" : "PRIMARY KEY"), "\(plan)")
        let isPlain = sql.contains("SELECT created_at, message_id, body, flags")
        let bounds =
          isPlain
          ? ["created_at>?)", "created_at<?)"]
          : ["(created_at,message_id)>(?,?) AND (created_at,message_id)<(?,?))"]
        #expect(bounds.contains { step.contains($0) }, "\(plan)")
      }
    }
  }

  /// Names of the tables of a new file, with the number of their columns.
  private func tables(_ reader: CacheReader) throws -> [(name: String, columns: Int)] {
    let sql = """
      SELECT t.name, (SELECT count(*) FROM pragma_table_info(t.name))
      FROM sqlite_schema AS t
      WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%'
      """
    var rows = try reader.db.rows(composed: sql)
    var found: [(name: String, columns: Int)] = []
    while let row = try rows.next() { found.append((row.string(0), row.int(1))) }
    return found
  }

  @Test("to check a new row, SQLite opens no temporary table")
  func checks() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.cache.read { reader in
      let tables = try tables(reader)
      #expect(tables.count > 20)
      for table in tables {
        let values = Array(repeating: "1", count: table.columns).joined(separator: ", ")
        var rows = try reader.db.rows(composed: "EXPLAIN INSERT INTO \(table.name) VALUES (\(values))")
        var steps: Set<String> = []
        while let row = try rows.next() { steps.insert(row.string(1)) }
        #expect(steps.contains("Insert") || steps.contains("IdxInsert"), "\(table.name)")
        #expect(!steps.contains("OpenEphemeral"), "\(table.name)")
      }
    }
  }

  @Test(
    "a value that a column's check does not list is refused",
    arguments: [
      "UPDATE outbox SET kind = 'other'", "UPDATE outbox SET state = 'other'",
      "UPDATE outbox SET upload = 'other'", "UPDATE request SET ended_as = 'other'",
      "UPDATE segment SET kind = 3", "UPDATE membership SET role = 'other'",
      "UPDATE membership SET hidden_state = 'other'", "UPDATE webhook_note SET kind = 'other'",
      "UPDATE collection SET owes = 'other'", "UPDATE user SET phase = 'other'",
    ])
  func refused(_ sql: String) throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest([ChannelWithMessages.message(1, at: 10)], limit: 100)
    let user = try #require(try world.cache.read { try $0.cachedUser(world.alice) })
    let lane = OutboxLaneKey(user: user.key, channel: world.url)
    try world.cache.blocking.accept { writer in
      _ = try writer.accept(
        UnsentRequest(
          requestID: RequestID("r")!, kind: .message, content: OutboxContent(params: [], body: []),
          contentHash: [1]), in: lane)
      try writer.note([WebhookNote(kind: .channel, channel: world.url, source: .channelRefresh)])
      try writer.db.execute(
        """
        INSERT INTO collection (id, user, kind, query, loaded, opened_at, accessed_at)
        VALUES ('v', \(lane.user.rawValue), 'channels', x'', x'', 0, 0)
        """)
    }
    let failure = #expect(throws: SQLiteError.self) {
      try world.cache.blocking.accept { try $0.db.execute(sql) }
    }
    #expect(failure?.kind == .constraint)
  }
}
