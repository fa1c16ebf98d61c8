import ChatModel
import JSON
import SQLite

// How files leave the spool. A commit stores the start of each upload. The commit that stores its url also
// puts the url into the message to send. So no try uploads a file again.

/// A file to upload. Its start is stored before it begins.
package struct UploadJob: Sendable {
  /// The id of the message's outbox row.
  package let row: Int64
  /// The file of the message.
  package let file: StoredUpload
}

/// How an upload ended.
package struct EndedUpload: Sendable {
  /// The upload that ended.
  package let job: UploadJob
  /// The outcome of the upload.
  package let outcome: OutboxLane.Outcome
  /// The file's url at the upstream; nil: the upload did not succeed.
  package let url: String?
  /// The upstream's words for a refusal.
  package let message: String?

  /// An upload and its outcome.
  package init(_ job: UploadJob, _ outcome: OutboxLane.Outcome, url: String? = nil, message: String? = nil) {
    self.job = job
    self.outcome = outcome
    self.url = url
    self.message = message
  }
}

/// The result of `advanceUploads`.
package struct UploadProgress: Sendable {
  /// The upload whose start was just stored.
  package var begun: UploadJob?
  /// The ms until the lane's next upload may begin. Nil: none waits.
  package var nextTryIn: Int64?

  /// Nothing to do.
  package init() {}
}

extension CacheWriter {
  /// Stores how the lane's last upload ended, and begins the next one if one is due.
  ///
  /// `areOffered` false: the upstream takes no uploads, so files go with their messages.
  package func advanceUploads(
    _ name: OutboxLaneName, after ended: EndedUpload?, mayBegin: Bool = true, areOffered: Bool = true,
    _ policy: OutboxPolicy, random: UInt64
  ) throws -> UploadProgress {
    var progress = UploadProgress()
    guard let user = try reader.userKey(of: name.user) else { return progress }
    let laneKey = OutboxLaneKey(user: user, channel: name.channel)
    if let ended {
      try take(ended, in: laneKey, name, policy, random)
    } else {
      // No upload of this lane runs now. A row marked as running was left by a commit that failed.
      try changeLane(laneKey, from: try reader.uploadingLane(laneKey)) {
        $0.recoverUploads(now: now)
        return []
      }
    }
    if !areOffered { try sendWithMessages(in: laneKey) }
    if mayBegin { progress.begun = try begin(in: laneKey, name, policy, random) }
    if progress.begun == nil, let next = try reader.nextUpload(in: laneKey)?.nextTryAt {
      progress.nextTryIn = min(max(0, next - now), policy.longestWait)
    }
    return progress
  }

  /// Files that one commit refuses without asking the upstream.
  private static let refusalsPerStep = 32

  private func begin(
    in laneKey: OutboxLaneKey, _ name: OutboxLaneName, _ policy: OutboxPolicy, _ random: UInt64
  ) throws -> UploadJob? {
    let view = try reader.view(of: name.channel, for: laneKey.user)
    for _ in 0..<Self.refusalsPerStep {
      guard let row = try reader.nextUpload(in: laneKey), row.nextTryAt <= now else { return nil }
      let upload = try reader.upload(of: row.id)
      let refusal =
        upload == nil
        ? OutboxLane.Outcome.rejection(code: OutboxRow.fileMissing) : try refusal(of: row, view, name.user)
      try changeLane(laneKey, from: try reader.laneStep(laneKey, row: row.id)) { lane in
        guard lane.dispatch(row.id, .upload, now: now) else { return [] }
        guard let refusal else { return [] }
        return lane.finish(row.id, .upload, refusal, now: now, random: random, policy: policy)
      }
      guard refusal != nil else { return upload.map { UploadJob(row: row.id, file: $0) } }
    }
    return nil
  }

  private func refusal(
    of row: OutboxRow, _ view: ChannelView?, _ user: UserID
  ) throws -> OutboxLane.Outcome? {
    guard let view else { return .rejection(code: OutboxRow.notAMember) }
    do {
      try reader.checkRights(
        of: SendingRights(kind: .file, isAdmin: row.isAdmin, isAccepted: true), view, user)
      return nil
    } catch let denial as SendingDenial {
      return .rejection(code: denial.code)
    }
  }

  private func take(
    _ ended: EndedUpload, in laneKey: OutboxLaneKey, _ name: OutboxLaneName, _ policy: OutboxPolicy,
    _ random: UInt64
  ) throws {
    let row = ended.job.row
    // The row may have another file since.
    guard let before = try reader.laneStep(laneKey, row: row).row(row), before.upload == .running,
      try reader.upload(of: row)?.file == ended.job.file.file
    else { return }
    if case .success = ended.outcome, let url = ended.url { try noteUploaded(url, row, name) }
    let notices = try changeLane(laneKey, from: try reader.laneStep(laneKey, row: row)) {
      $0.finish(row, .upload, ended.outcome, now: now, random: random, policy: policy)
    }
    if case .success = ended.outcome, before.state.isPending {
      let lane = try reader.laneStep(laneKey, row: row)
      try tell(.merged(from: row, to: row), in: laneKey, lane, lane)
    }
    if notices.contains(where: { $0.isFailure(of: row) }) {
      try noteError(ended.message, of: row)
    }
  }

  /// Stores the url of an uploaded file, also in the message to send and in the message that views show.
  private func noteUploaded(_ url: String, _ row: Int64, _ name: OutboxLaneName) throws {
    try noteProgress(100, of: row, in: name)
    try db.run("UPDATE upload SET url = ?2 WHERE row = ?1") {
      $0.bind(1, row)
      $0.bind(2, url)
    }
    guard let content = try reader.content(ofUnsent: row) else { return }
    var field = JSONWriter()
    field.beginObject()
    field.field("file_url", url)
    field.endObject()
    try redraw(row, try reader.edited(content, by: field.finish().array, in: name.channel))
  }

  /// Stores the chat server's words for why the row failed.
  func noteError(_ message: String?, of row: Int64) throws {
    try db.run("UPDATE outbox SET error_message = ?2 WHERE id = ?1") {
      $0.bind(1, row)
      $0.bind(2, message)
    }
  }

  /// Makes the lane's files go with their messages, because the upstream takes no uploads.
  private func sendWithMessages(in laneKey: OutboxLaneKey) throws {
    try db.run(
      """
      UPDATE outbox
      SET upload = 'none'
      WHERE user = ?1 AND channel_url = ?2 AND upload = 'needed' AND state = 'waiting'
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
    }
  }
}

extension CacheReader {
  /// The row of the lane whose file is uploaded next.
  func nextUpload(in laneKey: OutboxLaneKey) throws -> OutboxRow? {
    let id = try db.first(
      """
      SELECT id
      FROM outbox INDEXED BY outbox_uploads
      WHERE user = ?1 AND channel_url = ?2 AND upload = 'needed' AND state = 'waiting'
      ORDER BY next_try_at
      LIMIT 1
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
    } _: {
      $0.int64(0)
    }
    return try id.flatMap { try laneStep(laneKey, row: $0).row($0) }
  }

  /// Whether the upload of the row is still wanted: its message was neither canceled nor ended otherwise.
  package func isUploadWanted(_ row: Int64) throws -> Bool {
    try db.first("SELECT 1 FROM outbox WHERE id = ?1 AND upload = 'running' AND state = 'waiting'") {
      $0.bind(1, row)
    } _: { _ in
      true
    } ?? false
  }
}

extension OutboxRow {
  /// The code of a message whose file is gone.
  package static let fileMissing = "file_missing"
}
