import CSQLite
import ChatModel
import Testing

@testable import ChatCache
@testable import SQLite

/// The statements that read messages name the columns that the code reads, in the same order.
@Suite struct MessageColumnTests {
  /// The columns of the statements that the reader's connection has ready, by the statements' texts.
  private func columns(_ reader: CacheReader) -> [String: [String]] {
    let connection = reader.db.connection.handle
    var found: [String: [String]] = [:]
    var statement = sqlite3_next_stmt(connection, nil)
    while let next = statement {
      if let text = sqlite3_sql(next) {
        found[String(cString: text)] = (0..<sqlite3_column_count(next)).map {
          sqlite3_column_name(next, $0).map { String(cString: $0) } ?? ""
        }
      }
      statement = sqlite3_next_stmt(connection, next)
    }
    return found
  }

  /// The column's name in SQL: `message_id` for `messageID`.
  private func name(_ column: some Any) -> String {
    var name = ""
    for letter in "\(column)" {
      if letter.isUppercase, name.last?.isUppercase == false { name += "_" }
      name.append(letter)
    }
    return name.lowercased()
  }

  @Test("every statement that reads messages has the columns of MessageColumn or PlainMessageColumn")
  func order() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...3).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    try world.cache.read { reader in
      let channel = try #require(try reader.channelKey(of: world.url))
      let range = Position.start...Position.end
      for isBackwards in [false, true] {
        _ = try reader.rows(isBackwards, range, channel)
        _ = try reader.replies(isBackwards, range, channel, 1)
        _ = try reader.plainRows(isBackwards, fromTimeOf: .start, channel)
        _ = try reader.plainRows(isBackwards, from: .start, channel)
      }
      _ = try reader.rows(range, ofVersion: nil, channel)
      _ = try reader.rows(ofMessage: 1, from: 0, channel)
      let statements = columns(reader).filter { $0.key.contains("FROM message") && $0.key.contains("body") }
      let all = MessageColumn.allCases.map { name($0) }
      let plain = PlainMessageColumn.allCases.map { name($0) }
      let expected = [all: 1, Array(all.dropLast(2)): 5, plain: 4]
      let found = Dictionary(grouping: statements.values) { $0 }.mapValues(\.count)
      #expect(found == expected)
      #expect(all[..<2] == plain[..<2], "messagePosition reads both")
    }
  }
}
