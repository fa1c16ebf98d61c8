import ChatModel
import SQLite

/// The part of a membership's row that an answer from upstream decides.
private struct MembershipFacts: Equatable {
  var sortAt: Int64
  var state: String
  var role: String
  var isMuted: Bool
  var hiddenState: String
  var floorAt: Int64
  var lastReadAt: Int64
  var unread: Int64
  var mentions: Int64
  var countedAt: Int64
  var joinedAt: Int64
  var invitedAt: Int64
  var inviter: [UInt8]?

  /// Whether the user sees the same of both.
  func isShown(as other: MembershipFacts) -> Bool {
    var other = other
    other.countedAt = countedAt
    return self == other
  }
}

extension CacheWriter {
  /// What one user sees of a channel, as the upstream just said it, and what differs as events for that user
  /// alone. What it did not say stays; of somebody unknown here it must at least say whether the user is in.
  func store(
    _ record: MembershipRecord, of user: UserKey, named name: UserID, in channel: ChannelKey,
    _ lastMessage: ChannelRecord.LastMessage, _ origin: ChannelOrigin
  ) throws {
    let old = try facts(of: user, in: channel)
    guard let state = record.state?.rawValue ?? old?.state else { return }
    let place = try reader.listPlace(of: channel)
    let floorAt = record.floorAt ?? old?.floorAt ?? 0
    var facts = MembershipFacts(
      sortAt: ChannelFacts.sortAt(
        lastMessageAt: place.lastMessageAt.flatMap { $0 >= floorAt ? $0 : nil }, createdAt: place.createdAt),
      state: state,
      role: record.isOperator.map { $0 ? "operator" : "none" } ?? old?.role ?? "none",
      isMuted: record.isMuted ?? old?.isMuted ?? false,
      hiddenState: record.hiddenState.flatMap { CacheWriter.hiddenStates.contains($0) ? $0 : nil }
        ?? old?.hiddenState ?? "unhidden",
      floorAt: floorAt, lastReadAt: max(old?.lastReadAt ?? 0, record.lastReadAt ?? 0), unread: 0, mentions: 0,
      countedAt: 0, joinedAt: record.joinedAt ?? old?.joinedAt ?? 0,
      invitedAt: record.invitedAt ?? old?.invitedAt ?? 0, inviter: record.inviter ?? old?.inviter)
    try count(&facts, since: old, record, lastMessage, place.lastMessageAt, of: name, in: channel)
    if old == nil || old?.isShown(as: facts) == false {
      try write(facts, of: user, in: channel)
      try tell(facts, since: old, of: user, in: channel, origin.source)
    } else {
      try setCounted(facts.countedAt, of: user, in: channel)
    }
    if case .listing(let sweep) = origin { try mark(sweep, of: user, in: channel) }
  }

  private static let hiddenStates: Set<String> = [
    "unhidden", "hidden_allow_auto_unhide", "hidden_prevent_auto_unhide",
  ]

  /// The user's counts: the upstream's where it said them, and what was stored since (B68); else those that
  /// were, without what was read meanwhile.
  private func count(
    _ facts: inout MembershipFacts, since old: MembershipFacts?, _ record: MembershipRecord,
    _ lastMessage: ChannelRecord.LastMessage, _ last: Int64?, of user: UserID, in channel: ChannelKey
  ) throws {
    let isCounted = record.unread != nil || record.mentions != nil || old == nil
    facts.countedAt = isCounted ? countedUpTo(lastMessage, last) : old?.countedAt ?? 0
    let start = max(facts.lastReadAt, facts.floorAt - 1)
    let later = try reader.unreadMessages(in: channel, after: max(facts.countedAt, start), exceptOf: user)
    let hasRead = old.map { facts.lastReadAt > $0.lastReadAt } ?? false
    let left = hasRead ? try reader.unreadMessages(in: channel, after: start, exceptOf: user) : 0
    // An answer older than what was read meanwhile counts what is read.
    let isOld = record.lastReadAt.map { facts.lastReadAt > $0 } ?? false
    facts.unread =
      if let unread = record.unread { (isOld ? 0 : unread) + later } else if hasRead {
        min(old?.unread ?? 0, left)
      } else { old?.unread ?? later }
    facts.mentions =
      if let mentions = record.mentions { isOld ? 0 : mentions } else if hasRead { 0 } else {
        old?.mentions ?? 0
      }
  }

  /// The newest message that the upstream's count can include (B68).
  private func countedUpTo(_ lastMessage: ChannelRecord.LastMessage, _ last: Int64?) -> Int64 {
    switch lastMessage {
    case .message(let message): message.createdAt
    case .none: 0
    case .absent: last ?? 0
    }
  }

  private func tell(
    _ facts: MembershipFacts, since old: MembershipFacts?, of user: UserKey, in channel: ChannelKey,
    _ source: ChangeSource
  ) throws {
    guard let old else {
      try append(Change(.membershipGained, source, channel: channel, user: user))
      return
    }
    if facts.floorAt > old.floorAt {
      try append(Change(.floor, .channelRefresh, channel: channel, user: user))
    }
    var source = source
    if facts.hiddenState != old.hiddenState, !source.isRealtime {
      source = facts.hiddenState == "unhidden" ? .channelUnhidden : .channelHidden
    } else if facts.lastReadAt > old.lastReadAt, !source.isRealtime {
      source = .read
    }
    try append(Change(.membership, source, channel: channel, user: user))
  }

  private func write(
    _ facts: MembershipFacts, of user: UserKey, in channel: ChannelKey
  ) throws {
    try db.run(
      """
      INSERT INTO membership (
        user, channel, channel_url, name_key, created_at, sort_at, state, role, is_muted, hidden_state,
        floor_at, last_read_at, unread, mentions, counted_at, joined_at, invited_at, inviter
      )
      SELECT
        ?1, id, channel_url, name_key, created_at, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15
      FROM channel
      WHERE id = ?2
      ON CONFLICT (user, channel) DO UPDATE
      SET name_key = excluded.name_key, created_at = excluded.created_at, sort_at = excluded.sort_at,
        state = excluded.state, role = excluded.role, is_muted = excluded.is_muted,
        hidden_state = excluded.hidden_state, floor_at = excluded.floor_at,
        last_read_at = excluded.last_read_at, unread = excluded.unread, mentions = excluded.mentions,
        counted_at = excluded.counted_at, joined_at = excluded.joined_at, invited_at = excluded.invited_at,
        inviter = excluded.inviter
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
      $0.bind(3, facts.sortAt)
      $0.bind(4, facts.state)
      $0.bind(5, facts.role)
      $0.bind(6, facts.isMuted)
      $0.bind(7, facts.hiddenState)
      $0.bind(8, facts.floorAt)
      $0.bind(9, facts.lastReadAt)
      $0.bind(10, facts.unread)
      $0.bind(11, facts.mentions)
      $0.bind(12, facts.countedAt)
      $0.bind(13, facts.joinedAt)
      $0.bind(14, facts.invitedAt)
      $0.bind(15, copyOf: facts.inviter)
    }
  }

  private func setCounted(_ counted: Int64, of user: UserKey, in channel: ChannelKey) throws {
    try db.run("UPDATE membership SET counted_at = ?3 WHERE user = ?1 AND channel = ?2 AND counted_at <> ?3")
    {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
      $0.bind(3, counted)
    }
  }

  private func mark(_ sweep: Int64, of user: UserKey, in channel: ChannelKey) throws {
    try db.run("UPDATE membership SET sweep = ?3 WHERE user = ?1 AND channel = ?2") {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
      $0.bind(3, sweep)
    }
  }

  private func facts(of user: UserKey, in channel: ChannelKey) throws -> MembershipFacts? {
    try db.reading.first(
      """
      SELECT
        sort_at, state, role, is_muted, hidden_state, floor_at, last_read_at, unread, mentions, counted_at,
        joined_at, invited_at, inviter
      FROM membership
      WHERE user = ?1 AND channel = ?2
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
    } _: { row in
      MembershipFacts(
        sortAt: row.int64(0), state: row.string(1), role: row.string(2), isMuted: row.bool(3),
        hiddenState: row.string(4), floorAt: row.int64(5), lastReadAt: row.int64(6), unread: row.int64(7),
        mentions: row.int64(8), countedAt: row.int64(9), joinedAt: row.int64(10), invitedAt: row.int64(11),
        inviter: row.isNull(12) ? nil : Array(row.bytes(12)))
    }
  }

  /// The user is no member any more: nothing of the channel is the user's to see, and what was unsent there
  /// fails (B69).
  package func removeMembership(of user: UserID, in url: ChannelURL, _ source: ChangeSource) throws {
    guard let key = try reader.userKey(of: user), let channel = try reader.channelKey(of: url) else { return }
    let removed = try db.run("DELETE FROM membership WHERE user = ?1 AND channel = ?2") {
      $0.bind(1, key.rawValue)
      $0.bind(2, channel.rawValue)
    }
    guard removed > 0 else { return }
    try removeMember(user.text, of: channel)
    try failOutbox(in: OutboxPlace(user: key, channel: url))
    try append(Change(.membershipLost, source, channel: channel, user: key))
  }
}

extension CacheReader {
  /// What decides where the channel stands in lists.
  fileprivate func listPlace(of channel: ChannelKey) throws -> (createdAt: Int64, lastMessageAt: Int64?) {
    try db.first("SELECT created_at, last_message_at FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      ($0.int64(0), $0.int64OrNil(1))
    } ?? (0, nil)
  }

  /// Stored messages after a moment that count as unread for a user (B68).
  fileprivate func unreadMessages(
    in channel: ChannelKey, after moment: Int64, exceptOf user: UserID
  ) throws -> Int64 {
    try db.first(
      """
      SELECT count(*)
      FROM message
      WHERE channel = ?1
        AND created_at > ?2
        AND sender <> ?3
        AND flags & 1 = 0
        AND (parent_id IS NULL OR flags & 2)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, moment)
      $0.bind(3, user.text)
    } _: {
      $0.int64(0)
    } ?? 0
  }
}
