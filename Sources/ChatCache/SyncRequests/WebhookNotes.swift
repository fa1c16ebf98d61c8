import ChatModel
import SQLite

/// A stored note that the upstream has to be asked about something a webhook named (B34).
package struct WebhookNote: Sendable, Equatable {
  /// The question for the upstream.
  package enum Kind: String, Sendable {
    /// List from the newest end.
    case newest
    /// Ask which messages changed since the channel was last polled: webhooks named too many messages to keep
    /// all ids, or no user was connected to ask as.
    case missed
    /// Fetch that message.
    case message
    /// Refresh the channel.
    case channel
  }

  /// The question for the upstream.
  package let kind: Kind
  /// The channel that the webhook named.
  package let channel: ChannelURL
  /// The message that the webhook named, 0 for none; `reads` in a note that members have read on.
  package private(set) var messageID: Int64
  /// The source that events name when the answer is stored.
  package let source: ChangeSource
  /// The users whose membership may have changed.
  package let users: [UserID]
  /// How many times the note had been stored when it was read.
  package var noted: Int64 = 1
  /// Whether the note may be stored without its message's id, as one note for several messages of the
  /// channel.
  package var mayBeJoined = false

  /// Stands for the message in a note that members have read on. So it is kept beside the channel's other
  /// note: somebody may read each second, and the other note would be asked about again each time.
  package static let reads: Int64 = 1

  /// A note with these parts.
  package init(
    kind: Kind, channel: ChannelURL, messageID: Int64 = 0, source: ChangeSource, users: [UserID] = []
  ) {
    self.kind = kind
    self.channel = channel
    self.messageID = kind == .channel && source == .read ? WebhookNote.reads : messageID
    self.source = source
    self.users = users
  }
}

extension CacheReader {
  /// All webhook notes, oldest first.
  package func webhookNotes() throws -> [WebhookNote] {
    try db.all("SELECT kind, channel_url, message_id, source, users, noted FROM webhook_note ORDER BY id") {
      try WebhookNote($0)
    }
  }

  /// The webhook notes of that channel, oldest first.
  package func webhookNotes(in url: ChannelURL) throws -> [WebhookNote] {
    try db.all(
      """
      SELECT kind, channel_url, message_id, source, users, noted
      FROM webhook_note
      WHERE channel_url = ?1
      ORDER BY id
      """
    ) {
      $0.bind(1, url.text)
    } _: {
      try WebhookNote($0)
    }
  }
}

extension WebhookNote {
  fileprivate init(_ row: Row) throws {
    guard let kind = Kind(rawValue: row.string(0)), let source = ChangeSource(rawValue: row.int64(3)) else {
      throw CacheError.unreadable("a webhook note of kind \(row.string(0))")
    }
    self.init(
      kind: kind, channel: ChannelURL(row.string(1)), messageID: row.int64(2), source: source,
      users: row.string(4).split(separator: "\n").map { UserID(String($0)) })
    // An earlier version stored notes of reads without a row of their own.
    messageID = row.int64(2)
    noted = row.int64(5)
  }
}

extension CacheWriter {
  /// Stores notes, and returns them as they are stored. An equal note is stored once, with the users of both.
  /// If webhooks name more messages of a channel than are kept by id, one note replaces all of them.
  @discardableResult
  package func note(_ notes: [WebhookNote]) throws -> [WebhookNote] {
    try notes.map { note in
      let note = try joined(note)
      try insert(note)
      if note.kind == .channel, note.source.concernsMembers {
        try noteMemberNews(in: note.channel, note.source)
      }
      guard note.kind == .message || note.kind == .newest,
        try namedMessages(note.kind, in: note.channel) > Limits.namedMessages
      else { return note }
      try db.run("DELETE FROM webhook_note WHERE channel_url = ?1 AND kind = ?2") {
        $0.bind(1, note.channel.text)
        $0.bind(2, note.kind.rawValue)
      }
      let all =
        note.kind == .newest
        ? WebhookNote(kind: .newest, channel: note.channel, source: note.source)
        : WebhookNote(kind: .missed, channel: note.channel, source: .messageChangelog)
      try insert(all)
      return all
    }
  }

  /// The note as it is stored: without its message's id if it may be joined and the channel has several.
  private func joined(_ note: WebhookNote) throws -> WebhookNote {
    guard note.mayBeJoined, try namedMessages(note.kind, in: note.channel) >= Limits.namedWhileClosed else {
      return note
    }
    return WebhookNote(kind: note.kind, channel: note.channel, source: note.source, users: note.users)
  }

  private func insert(_ note: WebhookNote) throws {
    let known = try users(ofEqual: note) ?? []
    let users = Set(known + note.users.map(\.text)).sorted().joined(separator: "\n")
    try db.run(
      """
      INSERT INTO webhook_note (at, channel_url, kind, message_id, source, users)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6)
      ON CONFLICT (channel_url, kind, message_id) DO UPDATE
      SET
        -- The source `channelDeleted` stays.
        source = iif(source = ?7, source, excluded.source),
        users = excluded.users,
        noted = noted + 1
      """
    ) {
      $0.bind(1, now)
      $0.bind(2, note.channel.text)
      $0.bind(3, note.kind.rawValue)
      $0.bind(4, note.messageID)
      $0.bind(5, note.source.rawValue)
      $0.bind(6, users)
      $0.bind(7, ChangeSource.channelDeleted.rawValue)
    }
  }

  /// Whether an equal note is stored.
  func isNoted(_ note: WebhookNote) throws -> Bool {
    try users(ofEqual: note) != nil
  }

  /// How many notes of that kind the channel has.
  func namedMessages(_ kind: WebhookNote.Kind, in url: ChannelURL) throws -> Int {
    try db.reading.first("SELECT count(*) FROM webhook_note WHERE channel_url = ?1 AND kind = ?2") {
      $0.bind(1, url.text)
      $0.bind(2, kind.rawValue)
    } _: {
      $0.int(0)
    } ?? 0
  }

  /// The users of an equal note; nil: none is stored.
  private func users(ofEqual note: WebhookNote) throws -> [String]? {
    try db.reading.first(
      "SELECT users FROM webhook_note WHERE channel_url = ?1 AND kind = ?2 AND message_id = ?3"
    ) {
      $0.bind(1, note.channel.text)
      $0.bind(2, note.kind.rawValue)
      $0.bind(3, note.messageID)
    } _: {
      $0.string(0).split(separator: "\n").map(String.init)
    }
  }

  /// Deletes a note after its answer was stored. A note that was stored again since it was read stays.
  package func settled(
    _ kind: WebhookNote.Kind, in url: ChannelURL, message: Int64, noted: Int64 = .max
  ) throws {
    try db.run(
      "DELETE FROM webhook_note WHERE channel_url = ?1 AND kind = ?2 AND message_id = ?3 AND noted <= ?4"
    ) {
      $0.bind(1, url.text)
      $0.bind(2, kind.rawValue)
      $0.bind(3, message)
      $0.bind(4, noted)
    }
  }
}

extension CacheReader {
  /// The given messages that have neither a row nor a tombstone.
  package func unknown(_ messages: [Int64], in url: ChannelURL) throws -> [Int64] {
    guard let channel = try channelKey(of: url) else { return messages }
    return try messages.filter { try time(of: $0, in: channel) == nil && !isDeleted($0, in: channel) }
  }
}
