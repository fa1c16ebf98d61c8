import ChatModel
import JSON
import SQLite

// The table `upload`: the files of unsent messages.

/// The file of one unsent message.
package struct StoredUpload: Hashable, Sendable {
  /// The file's name in the spool.
  package let file: SpoolName
  /// The hash of its bytes (`FileHash`); empty: unknown.
  package let hash: [UInt8]
  /// The file's size in bytes.
  package let size: Int64
  /// The name that the client gave the file.
  package let name: String
  /// The media type.
  package let mime: String
  /// The file's url at the chat server; nil: it is not uploaded yet.
  package let url: String?
  /// The last progress of the upload that an event told, in percent.
  package let progress: Int64

  /// Whether that is the same file. If an earlier program hashed it, its size decides.
  fileprivate func has(_ other: SpooledFile) -> Bool {
    size == Int64(other.size) && (hash.isEmpty || hash == other.hash)
  }
}

extension CacheReader {
  /// The file of an unsent message; nil for none.
  package func upload(of row: Int64) throws -> StoredUpload? {
    try db.first("SELECT file, hash, size, name, mime, url, progress FROM upload WHERE row = ?1") {
      $0.bind(1, row)
    } _: { row -> StoredUpload? in
      guard let file = SpoolName(row.string(0)) else { return nil }
      return StoredUpload(
        file: file, hash: Array(row.bytes(1)), size: row.int64(2), name: row.string(3), mime: row.string(4),
        url: row.stringOrNil(5), progress: row.int64(6))
    } ?? nil
  }

  /// The file of the unsent message with that request id.
  package func upload(of request: RequestID, in laneKey: OutboxLaneKey) throws -> StoredUpload? {
    try row(of: request, in: laneKey).flatMap { try upload(of: $0) }
  }

  /// All files that rows name.
  func spooledFiles() throws -> Set<SpoolName> {
    Set(try db.all("SELECT file FROM upload") { SpoolName($0.string(0)) }.compactMap { $0 })
  }

  /// Checks that the user may send a file to the channel and has room for one more unsent row. Called before
  /// the file's bytes are read. Throws a `SendingDenial` otherwise.
  package func checkFile(of user: UserID, in url: ChannelURL, isAdmin: Bool, _ policy: OutboxPolicy) throws {
    guard let key = try userKey(of: user), let view = try view(of: url, for: key) else {
      throw SendingDenial.channelNotFound
    }
    try checkRights(of: SendingRights(kind: .file, isAdmin: isAdmin), view, user)
    let counts = try unsentCounts(of: key)
    guard counts.pending + counts.failed + counts.canceled < policy.maximumUnsent else {
      throw SendingDenial.full(limit: policy.maximumUnsent)
    }
  }
}

/// What became of a file that came with a resend.
package enum ReplacedFile: Sendable, Hashable {
  case replaced
  /// The message has no file of its own, its file is uploaded already, or the message may have arrived with
  /// it.
  case kept
  /// The message may have arrived with another file, whose bytes are gone here.
  case isOther
}

extension CacheWriter {
  /// Stores the row's file, and frees its previous file.
  func setFile(_ sent: SentFile, of row: Int64) throws {
    if let before = try reader.upload(of: row), before.file != sent.file.name { noteFreed(before.file) }
    try sent.file.hash.withUnsafeBytes { hash in
      _ = try db.run(
        """
        INSERT INTO upload (row, file, hash, size, name, mime)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (row) DO UPDATE
        SET
          file = excluded.file, hash = excluded.hash, size = excluded.size, name = excluded.name,
          mime = excluded.mime, url = NULL, progress = CASE WHEN hash = excluded.hash THEN progress ELSE 0 END
        """
      ) {
        $0.bind(1, row)
        $0.bind(2, sent.file.name.text)
        $0.bind(3, blob: hash)
        $0.bind(4, sent.file.size)
        $0.bind(5, sent.name)
        $0.bind(6, sent.mime)
      }
    }
  }

  /// Gives a message that is resent the file that came with the request. `isMissing`: the bytes of its own
  /// file are gone.
  package func replaceFile(
    of request: RequestID, in laneKey: OutboxLaneKey, by sent: SentFile, isMissing: Bool
  ) throws -> ReplacedFile {
    guard let row = try reader.row(of: request, in: laneKey), let upload = try reader.upload(of: row),
      upload.url == nil, let content = try reader.content(ofUnsent: row)
    else { return .kept }
    // With another file the look would not recognize the message, and it would be sent twice (B39).
    if try reader.laneStep(laneKey, row: row).row(row)?.mayHaveArrived == true {
      guard isMissing else { return .kept }
      guard upload.has(sent.file) else { return .isOther }
      try setFile(SentFile(sent.file, name: upload.name, mime: upload.mime), of: row)
      return .replaced
    }
    try setFile(sent, of: row)
    var fields = JSONWriter()
    fields.beginObject()
    fields.field("file_name", sent.name)
    fields.field("file_mime", sent.mime)
    fields.field("file_size", sent.file.size)
    fields.endObject()
    try redraw(row, try reader.edited(content, by: fields.finish().array, in: laneKey.channel))
    try db.run("UPDATE outbox SET upload = 'needed' WHERE id = ?1 AND state IN ('waiting', 'held')") {
      $0.bind(1, row)
    }
    return .replaced
  }

  /// Frees the file of a deleted row. The janitor removes it after the commit.
  func freeFile(of row: OutboxRow) throws {
    guard row.kind == .file, let upload = try reader.upload(of: row.id) else { return }
    noteFreed(upload.file)
    try db.run("DELETE FROM upload WHERE row = ?1") { $0.bind(1, row.id) }
  }

  /// Appends an event with the progress of an upload. Progress never falls, and steps below five percent make
  /// no event, except the step to 100. False: there was no event.
  @discardableResult
  package func noteProgress(_ percent: Int64, of row: Int64, in name: OutboxLaneName) throws -> Bool {
    guard let upload = try reader.upload(of: row),
      percent >= upload.progress + UploadStep.percent || percent == 100 && upload.progress < 100,
      let user = try reader.userKey(of: name.user), let request = try requestID(of: row)
    else { return false }
    try db.run("UPDATE upload SET progress = ?2 WHERE row = ?1") {
      $0.bind(1, row)
      $0.bind(2, percent)
    }
    var change = Change(.upload, .localPendingCreated, user: user)
    change.channel = try reader.channelKey(of: name.channel)
    change.reference = request
    change.detail = UploadStep.detail(request, percent: percent, size: upload.size)
    try append(change)
    return true
  }

  private func requestID(of row: Int64) throws -> String? {
    try db.reading.first("SELECT request_id FROM outbox WHERE id = ?1", { $0.bind(1, row) }) { $0.string(0) }
  }
}

/// The event that tells an upload's progress.
package enum UploadStep {
  /// The smallest step that makes an event, in percent. The step to 100 always makes one.
  package static let percent: Int64 = 5

  /// The event's `progress`, as fields without braces.
  static func detail(_ request: String, percent: Int64, size: Int64) -> [UInt8] {
    var json = JSONWriter()
    json.field("request_id", request)
    json.field("percent", percent)
    json.field("size", size)
    return json.finish().array
  }
}
