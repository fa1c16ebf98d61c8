import ChatModel
import SQLite

// The slices in which everything is deleted that one commit could not clear (`ClearedRows`).

extension CacheReader {
  fileprivate func someMember() throws -> UserKey? {
    try db.first("SELECT min(user) FROM membership") { $0.int64OrNil(0).map(UserKey.init) } ?? nil
  }

  fileprivate func someChannelWithMessages() throws -> ChannelKey? {
    try db.first("SELECT min(channel) FROM message") { $0.int64OrNil(0).map(ChannelKey.init) } ?? nil
  }
}

extension CacheWriter {
  /// Deletes rows after everything was cleared: memberships, messages, the other rows of channels, channels,
  /// then events. True: more are left.
  func removeSliceOfEverything() throws -> Bool {
    guard let sequence = try reader.clearsEverything() else { return false }
    let time = SliceTime()
    while !time.isOver {
      if let user = try reader.someMember() {
        _ = try removeMemberships(of: user)
      } else if let channel = try reader.someChannelWithMessages() {
        _ = try removeMessages(of: channel, atMost: Limits.trimmedRows)
      } else if try !removeFirstRows(), try removeEvents(through: sequence) == 0 {
        try clearAll(withUnsent: false, isRest: true)
        return false
      }
    }
    return true
  }

  /// Deletes rows of the first of these tables that has any. False: all are empty.
  private func removeFirstRows() throws -> Bool {
    for table in CacheWriter.tablesOfChannels {
      if try db.run(table, { $0.bind(1, Limits.trimmedRows) }) > 0 { return true }
    }
    return false
  }

  /// Statements that each delete a bounded number of a table's rows: the rows of channels, then channels.
  /// With `+` SQLite enters the table by all columns of the key. Without it SQLite reads all rows of the last
  /// channel.
  private static let tablesOfChannels: [StaticString] = [
    """
    DELETE FROM tombstone
    WHERE (channel, message_id) <= (
      SELECT +channel, +message_id
      FROM (SELECT channel, message_id FROM tombstone ORDER BY channel, message_id LIMIT ?1)
      ORDER BY channel DESC, message_id DESC
      LIMIT 1
    )
    """,
    """
    DELETE FROM doubted
    WHERE (channel, message_id) <= (
      SELECT +channel, +message_id
      FROM (SELECT channel, message_id FROM doubted ORDER BY channel, message_id LIMIT ?1)
      ORDER BY channel DESC, message_id DESC
      LIMIT 1
    )
    """,
    """
    DELETE FROM member
    WHERE (channel, user_id) <= (
      SELECT +channel, +user_id
      FROM (SELECT channel, user_id FROM member ORDER BY channel, user_id LIMIT ?1)
      ORDER BY channel DESC, user_id DESC
      LIMIT 1
    )
    """,
    """
    DELETE FROM read_position
    WHERE (channel, user_id) <= (
      SELECT +channel, +user_id
      FROM (SELECT channel, user_id FROM read_position ORDER BY channel, user_id LIMIT ?1)
      ORDER BY channel DESC, user_id DESC
      LIMIT 1
    )
    """,
    """
    DELETE FROM channel_metadata
    WHERE (channel, key) <= (
      SELECT +channel, +key
      FROM (SELECT channel, key FROM channel_metadata ORDER BY channel, key LIMIT ?1)
      ORDER BY channel DESC, key DESC
      LIMIT 1
    )
    """,
    """
    DELETE FROM segment
    WHERE (channel, lo_at, lo_id) <= (
      SELECT +channel, +lo_at, +lo_id
      FROM (SELECT channel, lo_at, lo_id FROM segment ORDER BY channel, lo_at, lo_id LIMIT ?1)
      ORDER BY channel DESC, lo_at DESC, lo_id DESC
      LIMIT 1
    )
    """,
    """
    DELETE FROM thread
    WHERE (channel, parent, lo_at, lo_id) <= (
      SELECT +channel, +parent, +lo_at, +lo_id
      FROM (
        SELECT channel, parent, lo_at, lo_id
        FROM thread
        ORDER BY channel, parent, lo_at, lo_id
        LIMIT ?1
      )
      ORDER BY channel DESC, parent DESC, lo_at DESC, lo_id DESC
      LIMIT 1
    )
    """,
    """
    DELETE FROM member_list
    WHERE channel <= (
      SELECT max(channel) FROM (SELECT channel FROM member_list ORDER BY channel LIMIT ?1)
    )
    """,
    "DELETE FROM channel WHERE id <= (SELECT max(id) FROM (SELECT id FROM channel ORDER BY id LIMIT ?1))",
  ]

  private func removeEvents(through sequence: Int64) throws -> Int {
    try db.run("DELETE FROM event WHERE seq <= ?1 AND seq IN (SELECT seq FROM event ORDER BY seq LIMIT ?2)") {
      $0.bind(1, sequence)
      $0.bind(2, Limits.trimmedRows)
    }
  }
}
