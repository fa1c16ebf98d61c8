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
  var counted: Position
  var joinedAt: Int64
  var invitedAt: Int64
  var inviter: [UInt8]?

  /// Whether the user sees no difference between them.
  func isShown(as other: MembershipFacts) -> Bool {
    var other = other
    other.counted = counted
    return self == other
  }

  /// Whether the user came into the channel, or came again.
  func begins(since old: MembershipFacts?) -> Bool {
    old == nil || old?.state == "joined" && state != "joined"
  }

  /// Whether the user joined.
  func joins(since old: MembershipFacts?) -> Bool { state == "joined" && old?.state != "joined" }

  /// Whether only the read position and the counts differ.
  func differsInReading(from other: MembershipFacts) -> Bool {
    var other = other
    (other.lastReadAt, other.unread, other.mentions) = (lastReadAt, unread, mentions)
    return isShown(as: other)
  }
}

extension CacheWriter {
  /// Stores one user's view of a channel as the upstream just answered it, and appends the differences as
  /// events for that user alone. Fields that the answer lacks stay. For a new membership the answer must at
  /// least say whether the user is in the channel.
  func store(
    _ record: MembershipRecord, of user: UserKey, named name: UserID, in channel: ChannelKey,
    _ lastMessage: ChannelRecord.LastMessage, asked: ChannelRecord.Asked?, _ origin: ChannelOrigin,
    _ page: inout ListedPage?
  ) throws {
    let old = try facts(of: user, named: name, in: channel)
    var record = record
    if let asked, try isOvertaken(record, by: old, asked, of: user, in: channel) {
      try askAgain(channel, as: name)
      guard old != nil else { return }
      (record.state, record.isOperator, record.isMuted, record.floorAt) = (nil, nil, nil, nil)
    }
    guard let state = record.state?.rawValue ?? old?.state else { return }
    let times = try reader.listTimes(of: channel)
    let folded = try reader.foldedPosition(of: channel)
    let floorAt = record.floorAt ?? old?.floorAt ?? 0
    let shownAt = times.last.flatMap { $0.createdAt >= floorAt ? $0.createdAt : nil }
    var facts = MembershipFacts(
      sortAt: folded != nil && shownAt != nil
        ? ChannelColumns.follows : ChannelColumns.sortAt(lastMessageAt: shownAt, createdAt: times.createdAt),
      state: state,
      role: record.isOperator.map { $0 ? "operator" : "none" } ?? old?.role ?? "none",
      isMuted: record.isMuted ?? old?.isMuted ?? false,
      hiddenState: record.hiddenState.flatMap { CacheWriter.hiddenStates.contains($0) ? $0 : nil }
        ?? old?.hiddenState ?? "unhidden",
      floorAt: floorAt, lastReadAt: record.lastReadAt ?? old?.lastReadAt ?? 0, unread: 0, mentions: 0,
      counted: CacheWriter.nothing, joinedAt: record.joinedAt ?? old?.joinedAt ?? 0,
      invitedAt: record.invitedAt ?? old?.invitedAt ?? 0, inviter: record.inviter ?? old?.inviter)
    if let old, try reader.hasPendingRead(of: user, in: channel),
      record.lastReadAt.map({ $0 < old.lastReadAt }) ?? true
    {
      try countSinceOwnRead(&facts, since: old, record, lastMessage, times.last, of: name, in: channel)
    } else {
      try count(&facts, since: old, record, lastMessage, times.last, of: name, in: channel)
    }
    var newAfter: Int64?
    if facts.begins(since: old) {
      newAfter = try self.newAfter(for: user, record, lastMessage, isListed: page != nil)
      try beginNewMessages(in: channel, after: newAfter, isAlone: try old == nil && reader.isLeft(channel))
    }
    if old?.state != facts.state || old?.floorAt != facts.floorAt { noteRowsChanged(of: user) }
    let isTold = old == nil || old?.isShown(as: facts) == false
    if let folded, isTold || facts.counted != old?.counted {
      try write(storing(facts, folded: folded, of: name, in: channel), of: user, in: channel, newAfter)
    } else if isTold {
      try write(facts, of: user, in: channel, newAfter)
      if old == nil { try crowdIfNeeded(channel) }
    }
    if isTold {
      let isToldByPage = old == nil && page?.take(channel) ?? false
      if !isToldByPage {
        try tell(facts, since: old, of: user, in: channel, origin.sourceBesideReads)
        if facts.joins(since: old) { try tellMissed(by: user, in: channel, origin.sourceBesideReads) }
      }
    } else if folded == nil {
      try setCounted(facts.counted, of: user, in: channel)
    }
    if case .listing(let sweep) = origin { try mark(sweep, of: user, in: channel) }
  }

  /// Whether the user's membership changed after the answer was asked for, and the answer contradicts that.
  /// The rights in such an answer are not stored (B1). Since Perch asked, the user may have left, or the chat
  /// server may have reset the user's history.
  private func isOvertaken(
    _ record: MembershipRecord, by old: MembershipFacts?, _ asked: ChannelRecord.Asked, of user: UserKey,
    in channel: ChannelKey
  ) throws -> Bool {
    guard let old else {
      return try reader.hasChanged([.membershipLost, .channelDeleted], since: asked, of: user, in: channel)
    }
    let isEqual =
      record.state.map { $0.rawValue == old.state } ?? true
      && record.isOperator.map { $0 == (old.role == "operator") } ?? true
      && record.isMuted.map { $0 == old.isMuted } ?? true && record.floorAt.map { $0 == old.floorAt } ?? true
    let rights: [ChangeKind] = [.membershipGained, .membership, .floor]
    return try !isEqual && reader.hasChanged(rights, since: asked, of: user, in: channel)
  }

  /// Stores a note to fetch the channel as the user.
  private func askAgain(_ channel: ChannelKey, as user: UserID) throws {
    guard let url = try reader.url(of: channel) else { return }
    try note([WebhookNote(kind: .channel, channel: url, source: .channelRefresh, users: [user])])
    markNoted(in: url)
  }

  /// Deletes the membership because an answer says that the user is no member. If the user became one after
  /// the answer was asked for, a note is stored instead.
  func removeMembership(
    of user: UserID, in url: ChannelURL, asked: ChannelRecord.Asked?, _ source: ChangeSource
  ) throws {
    if let asked, let key = try reader.userKey(of: user), let channel = try reader.channelKey(of: url),
      try reader.hasChanged([.membershipGained], since: asked, of: key, in: channel)
    {
      return try askAgain(channel, as: user)
    }
    try removeMembership(of: user, in: url, source)
  }

  /// The facts as the row of a crowded channel's member stores them: without the messages that are counted
  /// when somebody asks. `folded`: the rows count everything up to there.
  private func storing(
    _ facts: MembershipFacts, folded: Position, of name: UserID, in channel: ChannelKey
  ) throws -> MembershipFacts {
    var facts = facts
    facts.counted = max(facts.counted, folded)
    let later = try reader.unread(after: facts.counted, in: channel, facts.lastReadAt, facts.floorAt, name)
    facts.unread = max(0, facts.unread - later.messages)
    facts.mentions = max(0, facts.mentions - later.mentions)
    return facts
  }

  private static let hiddenStates: Set<String> = [
    "unhidden", "hidden_allow_auto_unhide", "hidden_prevent_auto_unhide",
  ]

  /// A position before every message.
  private static let nothing = Position(createdAt: 0, messageID: 0)

  /// Sets the user's counts. If the answer has counts: these, plus messages stored since (B68). Otherwise the
  /// old ones, without messages read meanwhile.
  private func count(
    _ facts: inout MembershipFacts, since old: MembershipFacts?, _ record: MembershipRecord,
    _ lastMessage: ChannelRecord.LastMessage, _ last: Position?, of user: UserID, in channel: ChannelKey
  ) throws {
    let isCounted = record.unread != nil || record.mentions != nil || old == nil
    let before = old?.counted
    let counted = isCounted ? countedUpTo(lastMessage, last ?? before) : before ?? CacheWriter.nothing
    facts.counted = counted
    let isOld = try isOvertaken(record, lastMessage, by: old, in: channel)
    if isOld { facts.lastReadAt = old?.lastReadAt ?? 0 }
    if isCounted {
      let later = try reader.unread(after: counted, in: channel, facts.lastReadAt, facts.floorAt, user)
      let told = { (count: Int64?) in count.map { isOld ? 0 : Limits.counts.nearest(to: $0) } }
      facts.unread = told(record.unread).map { $0 + later.messages } ?? old?.unread ?? later.messages
      facts.mentions = told(record.mentions).map { $0 + later.mentions } ?? old?.mentions ?? later.mentions
    } else if let old, facts.lastReadAt > old.lastReadAt {
      let left = try reader.unread(
        after: CacheWriter.nothing, in: channel, facts.lastReadAt, facts.floorAt, user)
      facts.unread = min(old.unread, left.messages)
      facts.mentions = min(old.mentions, left.mentions)
    } else if let old {
      facts.unread = old.unread
      facts.mentions = old.mentions
    }
    facts.unread = Limits.counts.nearest(to: facts.unread)
    facts.mentions = Limits.counts.nearest(to: facts.mentions)
  }

  /// The user's counts while a read mark waits to be sent. The upstream does not know the mark, so it counts
  /// too much. The old counts hold, also of messages that were cleared or evicted since, but not more than
  /// the upstream counts, and not less than are stored after the mark.
  private func countSinceOwnRead(
    _ facts: inout MembershipFacts, since old: MembershipFacts, _ record: MembershipRecord,
    _ lastMessage: ChannelRecord.LastMessage, _ last: Position?, of user: UserID, in channel: ChannelKey
  ) throws {
    facts.lastReadAt = old.lastReadAt
    facts.counted = old.counted
    let left = try reader.unread(
      after: CacheWriter.nothing, in: channel, old.lastReadAt, facts.floorAt, user)
    let counted = countedUpTo(lastMessage, last ?? old.counted)
    let later = try reader.unread(after: counted, in: channel, old.lastReadAt, facts.floorAt, user)
    let nearest = Limits.counts.nearest
    let unread = record.unread.map { nearest($0) + later.messages } ?? old.unread
    let mentions = record.mentions.map { nearest($0) + later.mentions } ?? old.mentions
    facts.unread = nearest(max(left.messages, min(old.unread, unread)))
    facts.mentions = nearest(max(left.mentions, min(old.mentions, mentions)))
  }

  /// Whether an answer is older than the stored read mark: then its counts include messages that are read.
  ///
  /// A user who left and joined again may have read less than before. Then the answer has a later joining, or
  /// a message newer than those that the last answer counted.
  private func isOvertaken(
    _ record: MembershipRecord, _ lastMessage: ChannelRecord.LastMessage, by old: MembershipFacts?,
    in channel: ChannelKey
  ) throws -> Bool {
    guard let old, let readAt = record.lastReadAt, readAt < old.lastReadAt else { return false }
    if old.joinedAt > 0, let joinedAt = record.joinedAt, joinedAt > old.joinedAt { return false }
    guard case .message(let last) = lastMessage, last.position > old.counted else { return true }
    return try reader.isDeleted(last.messageID, in: channel)
  }

  /// The newest message that the upstream's count can include (B68). `last`: the last one known.
  private func countedUpTo(_ lastMessage: ChannelRecord.LastMessage, _ last: Position?) -> Position {
    switch lastMessage {
    case .message(let message): message.position
    case .none: CacheWriter.nothing
    case .absent: last ?? CacheWriter.nothing
    }
  }

  private func tell(
    _ facts: MembershipFacts, since old: MembershipFacts?, of user: UserKey, in channel: ChannelKey,
    _ source: ChangeSource
  ) throws {
    guard let old else {
      let sequence = try append(Change(.membershipGained, source, channel: channel, user: user))
      if facts.joins(since: nil) { try noteJoining(sequence, of: user, in: channel) }
      return
    }
    if old.state == "joined", facts.state != "joined" {
      // The user left and was invited again: what an open view shows has ended (B18, B69).
      if let url = try reader.url(of: channel) {
        try failOutbox(in: OutboxLaneKey(user: user, channel: url))
      }
      try append(Change(.membershipLost, source, channel: channel, user: user))
    }
    if facts.floorAt != old.floorAt {
      try append(Change(.floor, .channelRefresh, channel: channel, user: user))
    }
    var source = source
    if facts.hiddenState != old.hiddenState, !source.isRealtime {
      source = facts.hiddenState == "unhidden" ? .channelUnhidden : .channelHidden
    } else if facts.lastReadAt > old.lastReadAt, !source.isRealtime {
      source = .read
    }
    var change = Change(.membership, source, channel: channel, user: user)
    if source == .read, facts.differsInReading(from: old) { change.detail = Change.readsOn }
    let sequence = try append(change)
    if facts.joins(since: old) { try noteJoining(sequence, of: user, in: channel) }
  }

  private func write(
    _ facts: MembershipFacts, of user: UserKey, in channel: ChannelKey, _ newAfter: Int64?
  ) throws {
    try db.run(
      """
      INSERT INTO membership (
        user, channel, channel_url, name_key, created_at, sort_at, state, role, is_muted, hidden_state,
        floor_at, last_read_at, unread, mentions, counted_at, counted_id, joined_at, invited_at, inviter,
        new_after
      )
      SELECT
        ?1, id, channel_url, name_key, created_at, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
        ?16, ?17
      FROM channel
      WHERE id = ?2
      ON CONFLICT (user, channel) DO UPDATE
      SET name_key = excluded.name_key, created_at = excluded.created_at, sort_at = excluded.sort_at,
        state = excluded.state, role = excluded.role, is_muted = excluded.is_muted,
        hidden_state = excluded.hidden_state, floor_at = excluded.floor_at,
        last_read_at = excluded.last_read_at, unread = excluded.unread, mentions = excluded.mentions,
        counted_at = excluded.counted_at, counted_id = excluded.counted_id, joined_at = excluded.joined_at,
        invited_at = excluded.invited_at,
        inviter = excluded.inviter, new_after = coalesce(excluded.new_after, new_after)
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
      $0.bind(12, facts.counted.createdAt)
      $0.bind(13, facts.counted.messageID)
      $0.bind(14, facts.joinedAt)
      $0.bind(15, facts.invitedAt)
      $0.bind(16, copyOf: facts.inviter)
      $0.bind(17, newAfter)
    }
  }

  private func setCounted(_ counted: Position, of user: UserKey, in channel: ChannelKey) throws {
    try db.run(
      """
      UPDATE membership
      SET counted_at = ?3, counted_id = ?4
      WHERE user = ?1 AND channel = ?2 AND (counted_at, counted_id) IS NOT (?3, ?4)
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
      $0.bind(3, counted.createdAt)
      $0.bind(4, counted.messageID)
    }
  }

  private func mark(_ sweep: Int64, of user: UserKey, in channel: ChannelKey) throws {
    try db.run("UPDATE membership SET sweep = ?3 WHERE user = ?1 AND channel = ?2") {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
      $0.bind(3, sweep)
    }
  }

  private func facts(
    of user: UserKey, named name: UserID, in channel: ChannelKey
  ) throws -> MembershipFacts? {
    let stored = try db.reading.first(
      """
      SELECT
        m.sort_at, m.state, m.role, m.is_muted, m.hidden_state, m.floor_at, m.last_read_at, m.unread,
        m.mentions, m.counted_at, m.counted_id, m.joined_at, m.invited_at, m.inviter, c.is_crowded
      FROM membership AS m
      JOIN channel AS c ON c.id = m.channel
      WHERE m.user = ?1 AND m.channel = ?2
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
    } _: { row in
      let facts = MembershipFacts(
        sortAt: row.int64(0), state: row.string(1), role: row.string(2), isMuted: row.bool(3),
        hiddenState: row.string(4), floorAt: row.int64(5), lastReadAt: row.int64(6), unread: row.int64(7),
        mentions: row.int64(8),
        counted: Position(createdAt: row.int64(9), messageID: row.int64(10)), joinedAt: row.int64(11),
        invitedAt: row.int64(12), inviter: row.isNull(13) ? nil : Array(row.bytes(13)))
      return (facts: facts, isCrowded: row.bool(14))
    }
    guard var facts = stored?.facts, stored?.isCrowded ?? false else { return stored?.facts }
    let row = FollowedCounts.Count(unread: facts.unread, mentions: facts.mentions)
    let from = max(facts.counted.next, Position.last(at: facts.lastReadAt).next, .first(at: facts.floorAt))
    let count = try reader.crowdedCount(
      of: user, named: ExactText(name.text), in: channel, from: from, row: row)
    (facts.unread, facts.mentions) = (count.unread, count.mentions)
    return facts
  }

  /// Deletes the membership: the user sees nothing of the channel any more, and unsent rows there fail (B69).
  package func removeMembership(of user: UserID, in url: ChannelURL, _ source: ChangeSource) throws {
    guard let key = try reader.userKey(of: user), let channel = try reader.channelKey(of: url) else { return }
    let removed = try db.run("DELETE FROM membership WHERE user = ?1 AND channel = ?2") {
      $0.bind(1, key.rawValue)
      $0.bind(2, channel.rawValue)
    }
    guard removed > 0 else { return }
    noteRowsChanged(of: key)
    noteLeaving()
    // The other members no longer see how far this one has read.
    if try removePosition(of: ExactText(user.text), in: channel) {
      try append(Change(.channel, source, channel: channel))
    }
    try removeMember(user.text, of: channel)
    try noteMemberGone(of: channel)
    try failOutbox(in: OutboxLaneKey(user: key, channel: url))
    try append(Change(.membershipLost, source, channel: channel, user: key))
  }
}

extension CacheReader {
  /// Whether the log has a change of these kinds for the user, or for all, after the answer was asked for.
  fileprivate func hasChanged(
    _ kinds: [ChangeKind], since asked: ChannelRecord.Asked, of user: UserKey, in channel: ChannelKey
  ) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM event INDEXED BY event_by_channel
      WHERE channel = ?1 AND user IS NULL AND seq > ?2 AND ?4 & (1 << kind)
      UNION ALL
      SELECT 1
      FROM event INDEXED BY event_by_channel
      WHERE channel = ?1 AND user = ?3 AND seq > ?2 AND ?4 & (1 << kind)
      LIMIT 1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, asked.sequence)
      $0.bind(3, user.rawValue)
      $0.bind(4, kinds.reduce(Int64(0)) { $0 | 1 << $1.rawValue })
    } _: { _ in
      true
    } ?? false
  }

  /// The times that decide the channel's position in lists. `createdAt` is 0 if no answer has said it.
  func listTimes(of channel: ChannelKey) throws -> (createdAt: Int64, last: Position?) {
    try db.first("SELECT created_at, last_message_at, last_message_id FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: { row in
      (row.int64(0), row.int64OrNil(1).map { Position(createdAt: $0, messageID: row.int64(2)) })
    } ?? (0, nil)
  }

  /// The stored messages and mentions after a position that are unread for a user with this read mark and
  /// floor (B68). Cleared ones count only until the rows of a crowded channel's members count them.
  fileprivate func unread(
    after position: Position, in channel: ChannelKey, _ readAt: Int64, _ floorAt: Int64, _ user: UserID
  ) throws -> (messages: Int64, mentions: Int64) {
    let start = max(position, Position.last(at: max(readAt, max(floorAt, 0) - 1)))
    return try db.first(
      """
      SELECT
        count(*),
        coalesce(sum(
          mentions = '*' OR ?4 IN (SELECT value FROM json_each(iif(mentions = '*', '[]', mentions)))), 0)
      FROM message
      WHERE channel = ?1
        AND (created_at, message_id) > (?2, ?3)
        AND sender <> ?4
        AND flags & 1 = 0
        AND (parent_id IS NULL OR flags & 2)
        AND version > coalesce(
          (
            SELECT cleared_version
            FROM channel
            WHERE id = ?1
              AND NOT (
                is_crowded
                AND (folded_user IS NOT NULL OR (folded_at, folded_id) < (known_to_at, known_to_id))
              )
          ), -1)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, start.createdAt)
      $0.bind(3, start.messageID)
      $0.bind(4, user.text)
    } _: {
      ($0.int64(0), $0.int64(1))
    } ?? (0, 0)
  }
}
