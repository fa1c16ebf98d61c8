import ChatModel
import SQLite

// The table `message`. A message is written if it is newer than its stored row; a deleted message stays
// deleted.

/// The messages that one commit changes in one channel, divided among as few events as possible. An answer to
/// a client can only end between two events, so each event holds a bounded number of messages (B49).
struct MessageBatch {
  /// The messages of one event.
  struct Piece {
    /// The event's sequence, which is also the version of its messages.
    let sequence: Int64
    /// The positions from the oldest to the newest message of the event.
    fileprivate(set) var stretch: ClosedRange<Position>
    /// Whether its messages are old or new to a client that follows the channel.
    let age: MessageAge
    private var rows = 1
    private var bytes: Int64

    fileprivate init(sequence: Int64, _ age: MessageAge, _ record: MessageRecord) {
      self.sequence = sequence
      self.age = age
      stretch = record.position...record.position
      bytes = record.storedBytes
    }

    /// Adds a message. False: the event is full.
    fileprivate mutating func take(_ record: MessageRecord, _ age: MessageAge) -> Bool {
      guard age == self.age, rows < Limits.changeMessages,
        bytes + record.storedBytes <= Limits.changeBytes
      else { return false }
      rows += 1
      bytes += record.storedBytes
      stretch = min(stretch.lowerBound, record.position)...max(stretch.upperBound, record.position)
      return true
    }
  }

  let channel: ChannelKey
  let source: ChangeSource
  /// Which messages are new if they are stored for the first time.
  let newMessages: NewMessages
  /// The events of the changed messages, in order of their sequences.
  private(set) var pieces: [Piece] = []
  /// The sequence of the last deletion's event.
  var deletion: Int64?
  /// The ids of the deleted messages.
  var removed: Set<Int64> = []
  /// Messages that were not stored before.
  var added: [CountedMessage] = []
  /// Messages whose part in the unread counts changed.
  var recounted: [(old: CountedMessage, new: CountedMessage)] = []
  /// Which senders have unsent rows, looked up once for the whole batch.
  var senders = UnsentSenders()
  /// The newest changed message that may become the channel's last one.
  var newest: MessageRecord?
  /// Whether a stored message got another time.
  var hasMoved = false
  /// Messages that a listing lacked although the upstream has them.
  var overlooked: [Position] = []
  /// The sequence at which the channel was cleared, while cleared rows are left (0: none are); nil: not
  /// looked up yet.
  var clearedVersion: Int64?
  /// Rows and bytes added, less those deleted.
  var rows: Int64 = 0
  var bytes: Int64 = 0

  init(_ channel: ChannelKey, _ source: ChangeSource, _ newMessages: NewMessages) {
    self.channel = channel
    self.source = source
    self.newMessages = newMessages
  }

  /// The sequence of the last event of changed messages; nil while none changed.
  var sequence: Int64? { pieces.last?.sequence }

  /// The sequence of the event that holds this message. `isFirst`: it was not stored before. `isAnswer`: it
  /// names an unsent row, whose user is told of it however old it is. `next` gives the sequence of a further
  /// event.
  mutating func sequence(
    for record: MessageRecord, isFirst: Bool, isAnswer: Bool = false, next: () -> Int64
  ) -> Int64 {
    let age = age(of: record, isFirst: isFirst, isAnswer: isAnswer)
    let last = pieces.count - 1
    if last >= 0, pieces[last].take(record, age) { return pieces[last].sequence }
    let piece = Piece(sequence: next(), age, record)
    pieces.append(piece)
    return piece.sequence
  }

  private func age(of record: MessageRecord, isFirst: Bool, isAnswer: Bool) -> MessageAge {
    guard isFirst else { return .unknown }
    let isNew = newMessages.contain(record.position)
    if isNew == true { return .new }
    return source.tellsOld(isKnown: isNew != nil) && !isAnswer ? .old : .unknown
  }
}

extension ChangeSource {
  /// Whether a message that it brings, and that is not new, is old. Otherwise it is a change of a message
  /// that a client may have. `isKnown`: the cache knows which messages of the channel are new.
  fileprivate func tellsOld(isKnown: Bool) -> Bool {
    switch self {
    case .apiResult, .messageFill: true
    case .messageReceived, .messageSent: isKnown
    default: false
    }
  }
}

extension MessageRecord {
  /// Whether the message is shown in the channel itself, and not only in a thread.
  var isInChannel: Bool { parentID == nil || isReplyToChannel }
  /// The message's bytes, as counted for the cache's size.
  var storedBytes: Int64 {
    Int64(
      body.count + (reactions?.count ?? 0) + (metaarray?.count ?? 0) + (threadInfo?.count ?? 0)
        + (parent?.count ?? 0))
  }
  /// As the column `flags` keeps them.
  var flags: MessageFlags {
    var flags: MessageFlags = []
    if isSilent { flags.insert(.silent) }
    if isReplyToChannel { flags.insert(.replyToChannel) }
    if parentID != nil { flags.insert(.reply) }
    return flags
  }
}

/// The bits of a message's column `flags`.
struct MessageFlags: OptionSet {
  let rawValue: Int64

  /// The message does not count as unread.
  static let silent = MessageFlags(rawValue: 1)
  /// The message is a reply that the channel shows too.
  static let replyToChannel = MessageFlags(rawValue: 2)
  /// The message is a reply.
  static let reply = MessageFlags(rawValue: 4)
}

extension CacheWriter {
  /// Stores one message if it is newer than the stored one (B21).
  ///
  /// `askedAt`: the log's sequence when the request went out. A row that changed since then is newer than an
  /// answer with the same `updated_at`, because reactions and threads change without raising `updated_at`.
  ///
  /// A later request may return a message that has a tombstone. If it asked for the message by id (`.named`),
  /// the message is stored again. Otherwise the message is doubted, so that the sync worker asks for it by
  /// id. A listing may also have older reactions or an older thread, which are not stored. If it is unclear
  /// which are older, the sync worker asks for the message by its id.
  func put(
    _ record: MessageRecord, _ batch: inout MessageBatch, askedAt: Int64 = .max, from answer: MessageAnswer
  ) throws {
    if let buriedAt = try reader.buriedAt(record.messageID, in: batch.channel) {
      guard askedAt != .max, askedAt >= buriedAt else { return }
      guard answer == .named else { return try doubt(record.position, in: batch.channel, askedAt: askedAt) }
      try db.run("DELETE FROM tombstone WHERE channel = ?1 AND message_id = ?2") {
        $0.bind(1, batch.channel.rawValue)
        $0.bind(2, record.messageID)
      }
    }
    if try endDoubt(record.messageID, in: batch.channel, askedAt: askedAt) {
      batch.overlooked.append(record.position)
    }
    let record = try naming(record, &batch)
    try dropCleared(record.messageID, &batch)
    let stored = try compare(record, in: batch.channel)
    var firstVersion: Int64?
    switch stored {
    case .same: return
    case .known(let row):
      switch row.order(of: record, askedAt: askedAt, from: answer, now: now) {
      case .older: return try nameStored(record, at: row.counted.position, &batch)
      case .unclear:
        let isNoted = try noteToFetch(record.messageID, in: batch.channel)
        if isNoted || row.updatedAt > record.updatedAt { return }
      case .newer: break
      }
      let first = row.firstVersion != 0 ? row.firstVersion : row.version
      if row.counted.position != record.position {
        try deleteRow(at: row.counted.position, in: batch.channel)
        try widenChange(first, to: record.position)
        batch.hasMoved = true
      }
      batch.bytes -= row.bytes
      firstVersion = first
      let counted = CountedMessage(record)
      if row.counted != counted { batch.recounted.append((row.counted, counted)) }
    case .unknown:
      batch.rows += 1
      batch.added.append(CountedMessage(record))
    }
    batch.bytes += record.storedBytes
    let isNew = firstVersion == nil
    let isAnswer = try answersUnsent(record, &batch)
    let sequence = batch.sequence(for: record, isFirst: isNew, isAnswer: isAnswer, next: takeSequence)
    if record.isInChannel, batch.newest.map({ $0.position <= record.position }) ?? true {
      batch.newest = record
    }
    try write(record, in: batch.channel, version: sequence, firstVersion: firstVersion ?? sequence)
    try noteAnswer(record, isNew: isNew, &batch)
  }

  private func write(
    _ record: MessageRecord, in channel: ChannelKey, version: Int64, firstVersion: Int64
  ) throws {
    noteMessage(record.position, in: channel)
    let parentAt = try record.parentAt ?? record.parentID.flatMap { try reader.time(of: $0, in: channel) }
    try db.run(
      """
      INSERT OR REPLACE INTO message (
        channel, created_at, message_id, version, updated_at, type, flags, parent_id, parent_at, sender,
        custom_type, body, reactions, metaarray, thread_info, parent, mentions,
        first_version
      )
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, record.createdAt)
      $0.bind(3, record.messageID)
      $0.bind(4, version)
      $0.bind(5, record.updatedAt)
      $0.bind(6, record.kind.stored)
      $0.bind(7, record.flags.rawValue)
      $0.bind(8, record.parentID)
      $0.bind(9, parentAt)
      $0.bind(10, record.sender)
      $0.bind(11, record.customType)
      $0.bind(12, copyOf: record.body)
      $0.bind(13, copyOf: record.reactions)
      $0.bind(14, copyOf: record.metaarray)
      $0.bind(15, copyOf: record.threadInfo)
      $0.bind(16, copyOf: record.parent)
      $0.bind(17, record.mentions.stored)
      $0.bind(18, firstVersion)
    }
  }

  /// Deletes a message that the upstream no longer has, with one event. If the upstream itself said that it
  /// was deleted, a tombstone stays (B21, B27).
  func removeMessage(_ id: Int64, _ batch: inout MessageBatch, leavesTombstone: Bool = true) throws {
    try endDoubt(id, in: batch.channel, askedAt: .max)
    if leavesTombstone { try bury(id, in: batch.channel, at: reader.lastChange()) }
    guard let row = try reader.doomed(id, in: batch.channel) else { return try removeLast(id, &batch) }
    let position = row.counted.position
    try deleteRow(at: position, in: batch.channel)
    batch.rows -= 1
    batch.bytes -= row.bytes
    var change = Change(.messageDeleted, batch.source, channel: batch.channel)
    change.stretch = position...position
    change.reference = String(id)
    let sequence = try append(change)
    if leavesTombstone { try bury(id, in: batch.channel, at: sequence) }
    batch.deletion = sequence
    batch.removed.insert(id)
    try uncount(row.counted, &batch, sequence)
  }

  /// A message without a row may still be the channel's last message: then the channel has changed.
  private func removeLast(_ id: Int64, _ batch: inout MessageBatch) throws {
    guard try reader.lastMessage(of: batch.channel)?.messageID == id else { return }
    batch.deletion = try append(Change(.channel, batch.source, channel: batch.channel))
    batch.removed.insert(id)
  }

  private func bury(_ id: Int64, in channel: ChannelKey, at sequence: Int64) throws {
    try db.run(
      """
      INSERT INTO tombstone (channel, message_id, deleted_at, seq)
      VALUES (?1, ?2, ?3, ?4)
      ON CONFLICT (channel, message_id) DO UPDATE SET seq = max(seq, excluded.seq)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, id)
      $0.bind(3, now)
      $0.bind(4, sequence)
    }
  }

  func deleteRow(at position: Position, in channel: ChannelKey) throws {
    noteMessage(position, in: channel)
    try db.run("DELETE FROM message WHERE channel = ?1 AND created_at = ?2 AND message_id = ?3") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, position.createdAt)
      $0.bind(3, position.messageID)
    }
  }
}

extension MessageQuery.Kind {
  /// The number of the column `type`.
  var stored: Int64 {
    switch self {
    case .user: 0
    case .file: 1
    case .admin: 2
    case .other: 3
    }
  }
}
