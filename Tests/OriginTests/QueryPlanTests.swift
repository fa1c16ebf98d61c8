import SQLite
import Testing

@testable import Origin

/// The hot queries use an index and do not sort.
@Suite struct QueryPlanTests {
  /// The plan's steps, in a database with statistics.
  private func plan(_ sql: String) throws -> [String] {
    let connection = try Connection(path: ":memory:")
    try connection.execute(Schema.sql)
    return try connection.read { db in
      var rows = try db.rows(composed: "EXPLAIN QUERY PLAN " + sql)
      var steps: [String] = []
      while let row = try rows.next() { steps.append(row.string(3)) }
      return steps
    }
  }

  private func expect(_ sql: StaticString, by index: String) throws {
    let steps = try plan("\(sql)")
    #expect(steps.contains { $0.contains(index) }, "\(steps)")
    #expect(!steps.contains { $0.contains("TEMP B-TREE") }, "\(steps)")
    #expect(!steps.contains { $0.hasPrefix("SCAN") && !$0.contains("json_each") }, "\(steps)")
  }

  @Test("a window is a range of the channel's line, on either side of its anchor")
  func windows() throws {
    for sql in [MessageWindow.olderSQL, MessageWindow.newerSQL] {
      try expect(sql, by: "message_window (channel=? AND created_at")
    }
  }

  @Test("a changelog page is a range of stamps, merged in their order")
  func changelogs() throws {
    try expect(Changelogs.messagesSQL, by: "message_changed (channel=? AND stamp>?)")
    let steps = try plan("\(Changelogs.channelsSQL)")
    #expect(steps.contains { $0.contains("member_changed (user_id=? AND stamp>?)") }, "\(steps)")
    #expect(steps.contains { $0.contains("departure_changed (user_id=? AND stamp>?)") }, "\(steps)")
    #expect(steps.contains { $0.contains("crowd_changed (stamp>?)") }, "\(steps)")
    #expect(!steps.contains { $0.contains("TEMP B-TREE") || $0.hasPrefix("SCAN") }, "\(steps)")
  }

  @Test("unread messages are counted in their index alone")
  func unread() throws {
    try expect(MemberRow.unreadSQL, by: "COVERING INDEX message_counted (channel=? AND created_at>?)")
    try expect(ChannelJSON.newestSQL, by: "message_window (channel=? AND created_at>?)")
  }

  @Test(
    "a page of a user's list goes along its order",
    arguments: [("member_created", false), ("member_sorted", true)])
  func lists(index: String, isByLastMessage: Bool) throws {
    let sql = ChannelLists.sql(
      order: isByLastMessage ? .latestLastMessage : .chronological, isOfMember: true, isFirst: false,
      filter: "")
    let steps = try plan(sql)
    #expect(steps.contains { $0.contains(index) }, "\(steps)")
    // The user's crowds alone are sorted.
    let sorted = steps.filter { $0.contains("TEMP B-TREE") }.count
    #expect(sorted == (isByLastMessage ? 1 : 0), "\(steps)")
    #expect(!steps.contains { $0.hasPrefix("SCAN") }, "\(steps)")
  }
}
