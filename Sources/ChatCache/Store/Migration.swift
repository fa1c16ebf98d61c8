import SQLite

/// How far a migration is (B63).
package struct MigrationProgress: Sendable, Equatable {
  /// The schema that the file had; 0: the file is new.
  package let from: Int64
  /// The schema that the file will have.
  package let to: Int64
  /// The finished part of the steps, in percent.
  package let percent: Int

  /// A progress with these numbers.
  package init(from: Int64, to: Int64, percent: Int) {
    self.from = from
    self.to = to
    self.percent = percent
  }
}

/// The schema's versions in order. Each runs in one transaction; the number lies in `PRAGMA user_version`
/// (B63).
enum Migration {
  /// One step: the scripts that lead to `version`.
  struct Step {
    let version: Int64
    let scripts: [[UInt8]]
  }

  static let steps = [
    Step(
      version: 1,
      scripts: [
        PackageResources.v001_identity_sql, PackageResources.v001_user_sql, PackageResources.v001_channel_sql,
        PackageResources.v001_message_sql, PackageResources.v001_segment_sql, PackageResources.v001_event_sql,
        PackageResources.v001_sync_sql, PackageResources.v001_outbox_sql,
        PackageResources.v001_collection_sql,
      ]),
    Step(version: 2, scripts: [PackageResources.v002_sending_sql]),
    Step(version: 3, scripts: [PackageResources.v003_outbox_steps_sql]),
    Step(version: 4, scripts: [PackageResources.v004_outbox_target_sql]),
    Step(version: 5, scripts: [PackageResources.v005_doubted_sql, PackageResources.v005_owed_sql]),
    Step(version: 6, scripts: [PackageResources.v006_outbox_edited_sql]),
    Step(version: 7, scripts: [PackageResources.v007_age_sql]),
    Step(version: 8, scripts: [PackageResources.v008_member_list_sql]),
    Step(version: 9, scripts: [PackageResources.v009_thread_sql]),
    Step(version: 10, scripts: [PackageResources.v010_unsent_count_sql]),
    Step(version: 11, scripts: [PackageResources.v011_cached_count_sql]),
    Step(version: 12, scripts: [PackageResources.v012_webhook_note_sql]),
    Step(version: 13, scripts: [PackageResources.v013_user_phase_sql]),
    Step(version: 14, scripts: [PackageResources.v014_upload_sql]),
    Step(version: 15, scripts: [PackageResources.v015_eviction_sql]),
    Step(version: 16, scripts: [PackageResources.v016_gap_counts_sql]),
    Step(version: 17, scripts: [PackageResources.v017_outbox_aside_sql]),
    Step(version: 18, scripts: [PackageResources.v018_outbox_version_sql]),
    Step(version: 19, scripts: [PackageResources.v019_outbox_names_sql]),
    Step(version: 20, scripts: [PackageResources.v020_checks_sql]),
    Step(version: 21, scripts: [PackageResources.v021_taken_back_sql]),
    Step(
      version: 22, scripts: [PackageResources.v022_crowded_sql, PackageResources.v022_cached_count_sql]),
    Step(version: 23, scripts: [PackageResources.v023_unread_sql]),
    Step(version: 24, scripts: [PackageResources.v024_read_position_sql]),
    Step(version: 25, scripts: [PackageResources.v025_crowd_stored_at_sql]),
    Step(version: 26, scripts: [PackageResources.v026_cleared_sql, PackageResources.v026_segment_sql]),
    Step(version: 27, scripts: [PackageResources.v027_upload_sql]),
    Step(version: 28, scripts: [PackageResources.v028_first_version_sql]),
    Step(version: 29, scripts: [PackageResources.v029_new_messages_sql]),
    Step(version: 30, scripts: [PackageResources.v030_event_by_channel_sql]),
    Step(version: 31, scripts: [PackageResources.v031_segment_count_sql]),
  ]

  static var newest: Int64 { steps.last!.version }

  /// Migrates the file to the newest schema. Calls `progress` before each step.
  static func run(_ connection: Connection, progress: @Sendable (MigrationProgress) -> Void) throws {
    let found = try connection.read { db in try db.first("PRAGMA user_version") { $0.int64(0) } ?? 0 }
    guard found <= newest else { throw CacheError.newerSchema(found: found, known: newest) }
    let missing = steps.filter { $0.version > found }
    for (done, step) in missing.enumerated() {
      progress(MigrationProgress(from: found, to: newest, percent: done * 100 / missing.count))
      try connection.write { db in
        for script in step.scripts { try db.execute(String(decoding: script, as: UTF8.self)) }
        try db.execute("PRAGMA user_version = \(step.version)")
      }
    }
  }
}
