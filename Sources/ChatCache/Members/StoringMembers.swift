import ChatModel
import SQLite

// Stores members from the upstream's answers: about a channel, with at most the first hundred, or about one.

extension CacheWriter {
  /// Stores the members and the member count of a channel's answer. If it shows as many members as it counts,
  /// other stored members are removed, except those that changed after the request. Any other answer removes
  /// no member. Returns whether anything changed.
  func storeMembers(_ record: ChannelRecord, of channel: ChannelKey) throws -> Bool {
    guard record.members != nil || record.memberCount != nil else { return false }
    let before = try reader.memberList(of: channel)
    var list = before
    let isChanged = try storeShown(record, of: channel, &list)
    // A count that differs from the rows says that members came or went.
    if list.isComplete, let told = record.memberCount, try told != reader.storedMembers(of: channel) {
      list.news += 1
    }
    if list != before { try save(list, of: channel) }
    return isChanged || list.isComplete != before.isComplete
  }

  private func storeShown(
    _ record: ChannelRecord, of channel: ChannelKey, _ list: inout MemberList
  ) throws -> Bool {
    guard let members = record.members else { return false }
    let before = list
    let named = members.filter { $0.state != .outside }
    let askedAt = record.asked?.sequence ?? .max
    // Whether another answer changed the rows after this one was requested: then this one may be outdated.
    let isOvertaken = askedAt < list.changedAt
    var isChanged = false
    var hasMoved = false
    for member in named {
      let stored = try store(member, of: channel, at: lastCommitted + 1)
      isChanged = isChanged || stored != .same
      hasMoved = hasMoved || stored == .new
    }
    let count = try record.memberCount ?? reader.memberCount(of: channel)
    let ids = Set(named.map { UserID($0.userID) })
    let showsAll = count > 0 && Int64(ids.count) == count
    if showsAll {
      let absent = try reader.members(of: channel, besides: ids)
      for member in absent where member.seq <= askedAt { try removeMember(member.id, of: channel) }
      hasMoved = hasMoved || absent.contains { $0.seq <= askedAt }
      let isSparing = absent.contains { $0.seq > askedAt }
      list.isWhole = !isSparing && !(isOvertaken && hasMoved)
      // Each poll shows the list again: an unchanged one is written at most once a minute.
      if list != before || moment - list.shownAt > 60_000 { list.shownAt = moment }
      if list.isWhole, let news = record.asked?.memberNews { list.settled = max(list.settled, news) }
    } else if isOvertaken, hasMoved {
      list.isWhole = false
    }
    if hasMoved { list.changedAt = lastCommitted + 1 }
    return isChanged || hasMoved
  }

  /// What storing a member did.
  enum StoredMember { case new, changed, same }

  /// Stores one member. `sequence`: that of the event that will tell it; 0 if a listing showed the member.
  func store(_ member: MemberRecord, of channel: ChannelKey, at sequence: Int64) throws -> StoredMember {
    if member.isWhole, try reader.isStored(member, in: channel) { return .same }
    let old = try reader.body(of: member.userID, in: channel)
    let body = try member.isWhole ? member.body : Fields.lay(member.body, over: old ?? Fields.ofMember)
    let changed = try db.run(
      """
      INSERT INTO member (channel, user_id, nickname_key, state, body, seq)
      VALUES (?1, ?2, coalesce(?3, ''), coalesce(?4, 'joined'), ?5, ?6)
      ON CONFLICT (channel, user_id) DO UPDATE
      SET nickname_key = coalesce(?3, nickname_key), state = coalesce(?4, state), body = ?5,
        seq = max(seq, ?6)
      WHERE (state, body) IS NOT (coalesce(?4, state), ?5)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, member.userID)
      $0.bind(3, member.nickname.map(ChannelColumns.key))
      $0.bind(4, member.state?.rawValue)
      $0.bind(5, copyOf: body)
      $0.bind(6, sequence)
    }
    if old == nil { try setReadPosition(of: member.userID, in: channel) }
    return old == nil ? .new : changed > 0 ? .changed : .same
  }

  /// Removes a member, and up to when the member has read. Answers whether there was one.
  @discardableResult
  func removeMember(_ user: String, of channel: ChannelKey) throws -> Bool {
    let removed = try db.run("DELETE FROM member WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, user)
    }
    let hadPosition = try removePosition(of: ExactText(user), in: channel)
    return removed > 0 || hadPosition
  }

  /// Stores the upstream's answers about single users, which settle the news up to `news`: those in `came`
  /// are members, those in `gone` are not. The list stays whole if the channel counts as many members as are
  /// stored.
  package func settleMembers(
    of url: ChannelURL, news: Int64, came: [MemberRecord], gone: [UserID], _ source: ChangeSource
  ) throws {
    guard let channel = try reader.attendedChannel(url) else { return }
    let before = try reader.memberList(of: channel)
    var list = before
    var isChanged = false
    for member in came {
      isChanged = try store(member, of: channel, at: lastCommitted + 1) != .same || isChanged
    }
    for user in gone { isChanged = try removeMember(user.text, of: channel) || isChanged }
    if isChanged { list.changedAt = lastCommitted + 1 }
    list.isWhole = try list.isWhole && reader.storedMembers(of: channel) == reader.memberCount(of: channel)
    if list.isWhole { list.settled = max(list.settled, news) }
    if list != before { try save(list, of: channel) }
    guard isChanged || list.isComplete != before.isComplete else { return }
    try append(Change(.channel, source, channel: channel))
  }
}

extension CacheReader {
  fileprivate func body(of member: String, in channel: ChannelKey) throws -> [UInt8]? {
    try db.first("SELECT body FROM member WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, member)
    } _: {
      Array($0.bytes(0))
    }
  }

  /// Whether the member's row has exactly these fields already.
  fileprivate func isStored(_ member: MemberRecord, in channel: ChannelKey) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM member
      WHERE channel = ?1 AND user_id = ?2 AND state = coalesce(?3, state) AND body = ?4
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, member.userID)
      $0.bind(3, member.state?.rawValue)
      $0.bind(4, copyOf: member.body)
    } _: { _ in
      true
    } ?? false
  }

  /// The stored members that are not in `ids`, each with the sequence at which it last changed.
  fileprivate func members(
    of channel: ChannelKey, besides ids: Set<UserID>
  ) throws -> [(id: String, seq: Int64)] {
    try db.all("SELECT user_id, seq FROM member WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      (id: $0.string(0), seq: $0.int64(1))
    }.filter { !ids.contains(UserID($0.id)) }
  }
}
