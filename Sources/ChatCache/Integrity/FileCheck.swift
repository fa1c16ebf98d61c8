import ChatModel
import JSON
import SQLite

// Checks the file as a whole, and rows outside of channels: SQLite's own check, unreadable events, unsent
// messages and changes. `Orphans.swift` checks rows whose channel or user is gone.

/// The result of SQLite's own check.
struct FileReport {
  /// One finding for each line.
  private(set) var findings: [Finding] = []
  /// The indexes that disagree with their tables.
  private(set) var indexes: Set<String> = []
  /// Whether the file itself is damaged: nothing is written into it then.
  var isDamaged: Bool { findings.contains { $0.fault == .file } }

  /// Adds the findings of another report.
  mutating func add(_ other: FileReport) {
    for finding in other.findings { add(finding.detail) }
  }

  mutating func add(_ line: String) {
    guard !findings.contains(where: { $0.detail == line }) else { return }
    if let index = FileReport.index(of: line) {
      indexes.insert(index)
      findings.append(Finding(.index, line))
    } else if FileReport.isAboutRows(line) {
      findings.append(Finding(.rows, line))
    } else {
      findings.append(Finding(.file, line))
    }
  }

  /// The index a line is about: "row 7 missing from index a", "wrong # of entries in index a",
  /// "non-unique entry in index a".
  private static func index(of line: String) -> String? {
    for words in [" missing from index ", "wrong # of entries in index ", "non-unique entry in index "] {
      if let found = line.firstRange(of: words) { return String(line[found.upperBound...]) }
    }
    return nil
  }

  /// Whether the line is about rows that break a constraint: "NULL value in a.b", "CHECK constraint failed in
  /// a", "non-INTEGER value in a.b", "NUMERIC value in a.b".
  private static func isAboutRows(_ line: String) -> Bool {
    line.hasPrefix("CHECK constraint failed in ") || line.contains(" value in ")
  }
}

extension CacheReader {
  /// The most lines of SQLite's check that are read.
  private static let checkedLines = 100

  /// SQLite's own check: every page, every index, every constraint.
  func fileReport() throws -> FileReport {
    var report = FileReport()
    var rows = try db.rows(composed: "PRAGMA integrity_check(\(CacheReader.checkedLines))")
    while let row = try rows.next() {
      let line = row.string(0)
      if line != "ok" { report.add(line) }
    }
    return report
  }

  /// The keys of all channels.
  func channelKeys() throws -> [ChannelKey] {
    try db.all("SELECT id FROM channel ORDER BY id") { ChannelKey($0.int64(0)) }
  }

  /// Reports events of an unknown kind or source.
  func unreadableEvents() throws -> [Finding] {
    let kinds = ChangeKind.allCases.map(\.rawValue)
    let sources = ChangeSource.allCases.map(\.rawValue)
    return try db.all(
      """
      SELECT seq, kind, source
      FROM event
      WHERE kind NOT BETWEEN ?1 AND ?2 OR source NOT BETWEEN ?3 AND ?4
      LIMIT 100
      """
    ) {
      $0.bind(1, kinds.min() ?? 0)
      $0.bind(2, kinds.max() ?? 0)
      $0.bind(3, sources.min() ?? 0)
      $0.bind(4, sources.max() ?? 0)
    } _: {
      Finding(.event, "event \($0.int64(0)) is of kind \($0.int64(1)) and source \($0.int64(2))")
    }
  }

  /// Reports unsent messages and changes that cannot be sent, or shown in an answer, as they are stored. Only
  /// their user may delete them, so they stay.
  func unsentFaults() throws -> [Finding] {
    let json = JSONParser()
    var found: [Finding] = []
    var rows = try db.rows(
      """
      SELECT
        o.id, o.request_id, o.kind, o.state, o.place, o.target_id, o.follows, o.aspect, o.upload,
        o.block_on_failure, o.is_cancel_wanted, o.accepted_at, o.expires_at, o.attempts, o.next_try_at,
        o.dispatched_at, o.may_have_arrived, o.absences, o.error_code, o.anchor_at, o.anchor_id, o.is_admin,
        o.params, o.body, o.channel_url, u.id IS NOT NULL, r.row = o.id AND r.ended_at IS NULL
      FROM outbox AS o
      LEFT JOIN user AS u ON u.id = o.user
      LEFT JOIN request AS r ON r.user = o.user AND r.request_id = o.request_id
      """)
    while let row = try rows.next() {
      let name = "unsent \(row.int64(0)) (\(row.string(1)))"
      func note(_ text: String) {
        found.append(Finding(.unsent, channel: ChannelURL(row.string(24)), "\(name) \(text)"))
      }
      do { _ = try CacheReader.outboxRow(row) } catch { note("cannot be read: \(error)") }
      if !json.reads(row.bytes(22), .object) { note("has params that are not a JSON object") }
      // A change needs no body, because answers show it only within its message. A message needs one.
      let needsBody = row.bytes(23).count > 0 || OutboxRow.Kind(rawValue: row.string(2))?.isMessage ?? true
      if needsBody, !json.reads(fieldsOf: row.bytes(23)) { note("has a body that is not JSON") }
      if !row.bool(25) { note("is of no user") }
      if !row.bool(26) { note("has no request that is remembered") }
    }
    return found
  }
}

extension CacheWriter {
  /// Deletes unreadable events. No client can be told of them, so a new epoch ends every cursor (B52).
  func forgetUnreadableEvents() throws {
    let kinds = ChangeKind.allCases.map(\.rawValue)
    let sources = ChangeSource.allCases.map(\.rawValue)
    try db.run("DELETE FROM event WHERE kind NOT BETWEEN ?1 AND ?2 OR source NOT BETWEEN ?3 AND ?4") {
      $0.bind(1, kinds.min() ?? 0)
      $0.bind(2, kinds.max() ?? 0)
      $0.bind(3, sources.min() ?? 0)
      $0.bind(4, sources.max() ?? 0)
    }
    try beginEpoch()
    try append(Change(.connection, .channelRefresh))
  }

  /// Builds indexes anew from their tables.
  func rebuild(_ indexes: Set<String>) throws {
    noteMessagesDeleted()
    for index in indexes.sorted() {
      let quoted = index.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
      try db.execute("REINDEX \"\(quoted)\"")
    }
  }
}
