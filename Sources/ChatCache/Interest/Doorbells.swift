import ChatModel
import SQLite

/// What rang and must be asked upstream before it is forgotten (B34).
package struct Doorbell: Sendable, Equatable {
  /// What to ask.
  package enum Kind: String, Sendable {
    /// List from the newest end.
    case newest
    /// Ask what happened to messages since the channel was last looked at: too many rang to be named, or
    /// nobody was there to ask for.
    case missed
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
  /// How often it was noted when it was read.
  package var noted: Int64 = 1

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
    try db.all("SELECT kind, channel_url, message_id, source, users, noted FROM due ORDER BY id") {
      try Doorbell($0)
    }
  }

  /// What rang in that channel and was not answered yet, oldest first.
  package func dueDoorbells(in url: ChannelURL) throws -> [Doorbell] {
    try db.all(
      "SELECT kind, channel_url, message_id, source, users, noted FROM due WHERE channel_url = ?1 ORDER BY id"
    ) {
      $0.bind(1, url.text)
    } _: {
      try Doorbell($0)
    }
  }
}

extension Doorbell {
  fileprivate init(_ row: Row) throws {
    guard let kind = Kind(rawValue: row.string(0)), let source = ChangeSource(rawValue: row.int64(3)) else {
      throw CacheError.unreadable("a doorbell of kind \(row.string(0))")
    }
    self.init(
      kind: kind, channel: ChannelURL(row.string(1)), messageID: row.int64(2), source: source,
      users: row.string(4).split(separator: "\n").map { UserID(String($0)) })
    noted = row.int64(5)
  }
}

extension CacheWriter {
  /// Notes doorbells until they are settled, and says as what; the same one twice is one, with the users of
  /// both. Where more messages of a channel rang than are named, one note stands for all of them.
  @discardableResult
  package func note(_ bells: [Doorbell]) throws -> [Doorbell] {
    try bells.map { bell in
      try insert(bell)
      if bell.kind == .channel, bell.source.concernsMembers {
        try noteMemberNews(in: bell.channel, bell.source)
      }
      guard bell.kind == .message || bell.kind == .newest,
        try namedMessages(bell.kind, in: bell.channel) > Limits.namedMessages
      else { return bell }
      try db.run("DELETE FROM due WHERE channel_url = ?1 AND kind = ?2") {
        $0.bind(1, bell.channel.text)
        $0.bind(2, bell.kind.rawValue)
      }
      let all =
        bell.kind == .newest
        ? Doorbell(kind: .newest, channel: bell.channel, source: bell.source)
        : Doorbell(kind: .missed, channel: bell.channel, source: .messageChangelog)
      try insert(all)
      return all
    }
  }

  private func insert(_ bell: Doorbell) throws {
    let users = Set(try noted(bell) + bell.users.map(\.text)).sorted().joined(separator: "\n")
    try db.run(
      """
      INSERT INTO due (at, channel_url, kind, message_id, source, users)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6)
      ON CONFLICT (channel_url, kind, message_id) DO UPDATE
      SET
        -- That a channel is gone, or that somebody came, is not overwritten by that somebody read.
        source = iif(source = ?7 OR excluded.source = ?8, source, excluded.source),
        users = excluded.users,
        noted = noted + 1
      """
    ) {
      $0.bind(1, now)
      $0.bind(2, bell.channel.text)
      $0.bind(3, bell.kind.rawValue)
      $0.bind(4, bell.messageID)
      $0.bind(5, bell.source.rawValue)
      $0.bind(6, users)
      $0.bind(7, ChangeSource.channelDeleted.rawValue)
      $0.bind(8, ChangeSource.read.rawValue)
    }
  }

  private func namedMessages(_ kind: Doorbell.Kind, in url: ChannelURL) throws -> Int {
    try db.reading.first("SELECT count(*) FROM due WHERE channel_url = ?1 AND kind = ?2") {
      $0.bind(1, url.text)
      $0.bind(2, kind.rawValue)
    } _: {
      $0.int(0)
    } ?? 0
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

  /// What a doorbell named is in the cache. One that was noted again since it was read stays.
  package func settled(
    _ kind: Doorbell.Kind, in url: ChannelURL, message: Int64, noted: Int64 = .max
  ) throws {
    try db.run("DELETE FROM due WHERE channel_url = ?1 AND kind = ?2 AND message_id = ?3 AND noted <= ?4") {
      $0.bind(1, url.text)
      $0.bind(2, kind.rawValue)
      $0.bind(3, message)
      $0.bind(4, noted)
    }
  }
}

extension CacheReader {
  /// Which of these messages the cache neither has nor knows to be deleted.
  package func unknown(_ messages: [Int64], in url: ChannelURL) throws -> [Int64] {
    guard let channel = try channelKey(of: url) else { return messages }
    return try messages.filter { try time(of: $0, in: channel) == nil && !isDeleted($0, in: channel) }
  }
}
