import ChatModel
import SQLite

/// What rang and must be asked upstream before it is forgotten (B34).
package struct Doorbell: Sendable, Equatable {
  /// What to ask.
  package enum Kind: String, Sendable {
    /// List from the newest end.
    case newest
    /// Fetch that message.
    case message
    /// Refresh the channel.
    case channel
  }

  /// What to ask.
  package let kind: Kind
  /// Where it rang.
  package let channel: ChannelURL
  /// 0 where it is about no message.
  package let messageID: Int64
  /// What the answer's events are called.
  package let source: ChangeSource
  /// The users whose membership may have changed.
  package let users: [UserID]

  /// A doorbell with these parts.
  package init(
    kind: Kind, channel: ChannelURL, messageID: Int64 = 0, source: ChangeSource, users: [UserID] = []
  ) {
    self.kind = kind
    self.channel = channel
    self.messageID = messageID
    self.source = source
    self.users = users
  }
}

extension CacheReader {
  /// What rang and was not answered yet, oldest first.
  package func dueDoorbells() throws -> [Doorbell] {
    try db.all("SELECT kind, channel_url, message_id, source, users FROM due ORDER BY id") { row in
      guard let kind = Doorbell.Kind(rawValue: row.string(0)),
        let source = ChangeSource(rawValue: row.int64(3))
      else { throw CacheError.unreadable("a doorbell of kind \(row.string(0))") }
      let users = row.string(4).split(separator: "\n").map { UserID(String($0)) }
      return Doorbell(
        kind: kind, channel: ChannelURL(row.string(1)), messageID: row.int64(2), source: source, users: users)
    }
  }
}

extension CacheWriter {
  /// Notes doorbells until they are settled; the same one twice is one, with the users of both.
  package func note(_ bells: [Doorbell]) throws {
    for bell in bells {
      let users = Set(try noted(bell) + bell.users.map(\.text)).sorted().joined(separator: "\n")
      try db.run(
        """
        INSERT INTO due (at, channel_url, kind, message_id, source, users)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (channel_url, kind, message_id) DO UPDATE
        SET source = excluded.source, users = excluded.users
        """
      ) {
        $0.bind(1, now)
        $0.bind(2, bell.channel.text)
        $0.bind(3, bell.kind.rawValue)
        $0.bind(4, bell.messageID)
        $0.bind(5, bell.source.rawValue)
        $0.bind(6, users)
      }
    }
  }

  /// The users of the doorbell where it is noted already.
  private func noted(_ bell: Doorbell) throws -> [String] {
    try db.reading.first(
      "SELECT users FROM due WHERE channel_url = ?1 AND kind = ?2 AND message_id = ?3"
    ) {
      $0.bind(1, bell.channel.text)
      $0.bind(2, bell.kind.rawValue)
      $0.bind(3, bell.messageID)
    } _: {
      $0.string(0).split(separator: "\n").map(String.init)
    } ?? []
  }

  /// What a doorbell named is in the cache.
  package func settled(_ kind: Doorbell.Kind, in url: ChannelURL, message: Int64) throws {
    try db.run("DELETE FROM due WHERE channel_url = ?1 AND kind = ?2 AND message_id = ?3") {
      $0.bind(1, url.text)
      $0.bind(2, kind.rawValue)
      $0.bind(3, message)
    }
  }
}
