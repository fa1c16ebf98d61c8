import ChatModel
import JSON
import SQLite

// A page of a user's first listing is one row of the event log, so that the first listings of many users do
// not push all other events out (B11, B53). The row takes one sequence per channel, of which its own is the
// last. So each membership has a version of its own, and an answer can end between two channels of a page.

/// The channels that one page of a user's first listing shows for the first time.
struct ListedPage {
  let user: UserKey
  /// Channels that get an event of their own, because a view of the user follows the channel or the user was
  /// in it before.
  let toldAlone: Set<ChannelKey>
  private(set) var channels: [ChannelKey] = []

  init(of user: UserKey, toldAlone: Set<ChannelKey>) {
    self.user = user
    self.toldAlone = toldAlone
  }

  /// Adds the channel. False: it needs an event of its own.
  mutating func take(_ channel: ChannelKey) -> Bool {
    guard !toldAlone.contains(channel) else { return false }
    channels.append(channel)
    return true
  }
}

extension CacheWriter {
  /// An empty page. Channels of the user's chat views, and channels that the user was in before, are told
  /// alone.
  func beginPage(of user: UserKey) throws -> ListedPage {
    let alone = try db.reading.all(
      """
      SELECT channel
      FROM collection INDEXED BY collection_by_user
      WHERE user = ?1 AND channel IS NOT NULL
      UNION
      SELECT channel
      FROM event INDEXED BY event_by_user
      WHERE user = ?1 AND kind = ?2 AND channel IS NOT NULL
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, ChangeKind.membershipLost.rawValue)
    } _: {
      ChannelKey($0.int64(0))
    }
    return ListedPage(of: user, toldAlone: Set(alone))
  }

  /// Appends the page's one change, and gives each membership its sequence in it. Then it appends changes for
  /// new messages that the cache had.
  func append(_ page: ListedPage) throws {
    guard let first = page.channels.first else { return }
    var sequence = takeSequence()
    try setVersion(sequence, of: page.user, in: first)
    for channel in page.channels.dropFirst() {
      sequence = takeSequence()
      try setVersion(sequence, of: page.user, in: channel)
    }
    var change = Change(.channelsListed, .channelRefresh, user: page.user)
    change.detail = Change.naming(page.channels)
    try append(change, at: sequence)
    for channel in page.channels { try tellMissed(by: page.user, in: channel, .channelRefresh) }
  }

  private func setVersion(_ sequence: Int64, of user: UserKey, in channel: ChannelKey) throws {
    try db.run(
      """
      UPDATE membership
      SET version = max(version, ?3), gained_version = ?3
      WHERE user = ?1 AND channel = ?2
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
      $0.bind(3, sequence)
    }
  }
}

extension Change {
  /// The detail that names channels.
  fileprivate static func naming(_ channels: [ChannelKey]) -> [UInt8] {
    var json = JSONWriter(capacity: 16 + 8 * channels.count)
    json.name("channels")
    json.beginArray()
    for channel in channels { json.value(channel.rawValue) }
    json.endArray()
    return json.finish().array
  }

  /// The channels that the detail names.
  fileprivate func namedChannels() throws -> [ChannelKey] {
    try ([UInt8(ascii: "{")] + (detail ?? []) + [UInt8(ascii: "}")]).withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) { json in
        var channels: [ChannelKey] = []
        for item in json["channels"]?.items ?? JSONValue.Items() {
          if let key = item.int64 { channels.append(ChannelKey(key)) }
        }
        return channels
      }
    }
  }
}

extension LoggedChange {
  /// One change for each of the page's channels whose sequence is after `since`; another change as it is.
  private func each(after since: Int64) throws -> [LoggedChange] {
    guard change.kind == .channelsListed else { return [self] }
    let channels = try change.namedChannels()
    let before = sequence - Int64(channels.count)
    return channels.enumerated().compactMap { index, channel in
      let own = before + Int64(index) + 1
      guard own > since else { return nil }
      let gained = Change(.membershipGained, change.source, channel: channel, user: change.user)
      return LoggedChange(sequence: own, at: at, change: gained)
    }
  }

  /// The changes, at most `limit`, with one change for each channel of a listed page. `isWhole`: none is left
  /// out.
  static func each(
    of changes: [LoggedChange], after since: Int64, limit: Int
  ) throws -> (changes: [LoggedChange], isWhole: Bool) {
    guard changes.count > limit || changes.contains(where: { $0.change.kind == .channelsListed }) else {
      return (changes, true)
    }
    var found: [LoggedChange] = []
    for change in changes {
      found += try change.each(after: since)
      if found.count > limit { return (Array(found.prefix(limit)), false) }
    }
    return (found, true)
  }
}
