import ChatModel
import SQLite

/// Compares the rows of one channel's messages with the entries of their indexes, some at a time, each part
/// in a snapshot of its own: each row has its entries, and each entry its row.
struct EntriesCheck {
  private enum Walk: Int { case rows, byID, byParent }

  private let channel: ChannelKey
  private var walk: Walk? = .rows
  /// The last row or entry that was read: `parent_id` or 0, `created_at`, `message_id`.
  private var last: [Int64] = [.min, .min, .min]
  private var lacksID = false
  private var lacksParent = false

  init(_ channel: ChannelKey) { self.channel = channel }

  /// Compares the next ones. False: all were compared.
  mutating func lookAtSome(_ reader: CacheReader, atMost most: Int) throws -> Bool {
    guard let walk else { return false }
    var rows = try reader.db.rows(EntriesCheck.sql(walk)) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, most)
      for (index, value) in last.enumerated() { $0.bind(Int32(3 + index), value) }
    }
    var read = 0
    while let row = try rows.next() {
      read += 1
      last = [row.int64(0), row.int64(1), row.int64(2)]
      lacksID = lacksID || !row.bool(3)
      lacksParent = lacksParent || !row.bool(4)
    }
    if read < most {
      self.walk = Walk(rawValue: walk.rawValue + 1)
      last = [.min, .min, .min]
    }
    return self.walk != nil
  }

  /// The report about what was compared.
  var report: FileReport {
    var report = FileReport()
    if lacksID { report.add("wrong # of entries in index message_by_id") }
    if lacksParent { report.add("wrong # of entries in index message_by_parent") }
    return report
  }

  /// A statement with the next rows or entries after (?3, ?4, ?5), and whether each agrees with the index
  /// `message_by_id` and with `message_by_parent`. No index has `version`, so a row with it is looked up in
  /// the table: with NOT INDEXED alone SQLite looks it up in the index that is checked.
  private static func sql(_ walk: Walk) -> StaticString {
    switch walk {
    case .rows: rowsSQL
    case .byID: byIDSQL
    case .byParent: byParentSQL
    }
  }

  private static let rowsSQL: StaticString = """
    SELECT
      0, m.created_at, m.message_id,
      EXISTS (
        SELECT 1
        FROM message AS x INDEXED BY message_by_id
        WHERE x.channel = ?1 AND x.message_id = m.message_id AND x.created_at = m.created_at
      ),
      m.parent_id IS NULL OR EXISTS (
        SELECT 1
        FROM message AS x INDEXED BY message_by_parent
        WHERE x.channel = ?1
          AND x.parent_id = m.parent_id
          AND x.created_at = m.created_at
          AND x.message_id = m.message_id
      )
    FROM message AS m NOT INDEXED
    WHERE m.channel = ?1 AND ?3 IS NOT NULL AND (m.created_at, m.message_id) > (?4, ?5)
    ORDER BY m.created_at, m.message_id
    LIMIT ?2
    """

  private static let byIDSQL: StaticString = """
    SELECT
      0, x.created_at, x.message_id,
      EXISTS (
        SELECT 1
        FROM message AS m
        WHERE m.channel = ?1
          AND m.created_at = x.created_at
          AND m.message_id = x.message_id
          AND typeof(m.version) = 'integer'
      ),
      1
    FROM message AS x INDEXED BY message_by_id
    WHERE x.channel = ?1 AND ?3 IS NOT NULL AND (x.message_id, x.created_at) > (?5, ?4)
    ORDER BY x.message_id, x.created_at
    LIMIT ?2
    """

  private static let byParentSQL: StaticString = """
    SELECT
      x.parent_id, x.created_at, x.message_id,
      1,
      EXISTS (
        SELECT 1
        FROM message AS m
        WHERE m.channel = ?1
          AND m.created_at = x.created_at
          AND m.message_id = x.message_id
          AND m.parent_id = x.parent_id
          AND typeof(m.version) = 'integer'
      )
    FROM message AS x INDEXED BY message_by_parent
    WHERE x.channel = ?1
      AND x.parent_id IS NOT NULL
      AND (x.parent_id, x.created_at, x.message_id) > (?3, ?4, ?5)
    ORDER BY x.parent_id, x.created_at, x.message_id
    LIMIT ?2
    """
}
