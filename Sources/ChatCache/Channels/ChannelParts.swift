import ChatModel
import JSON
import SQLite

// The parts of a channel that are rows of their own: metadata, members, read positions. Each call answers
// whether anything changed.

extension CacheWriter {
  /// All of the channel's metadata.
  func store(_ metadata: [ExactText: String], of channel: ChannelKey) throws -> Bool {
    var writer = JSONWriter()
    writer.beginObject()
    for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
      key.text.utf8.withContiguousStorageIfAvailable { writer.name(UnsafeRawBufferPointer($0)) }
      writer.value(value)
    }
    writer.endObject()
    let text = writer.finish().array
    let changed = try db.run("UPDATE channel SET metadata = ?2 WHERE id = ?1 AND metadata IS NOT ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, copyOf: text)
    }
    guard changed > 0 else { return false }
    try db.run("DELETE FROM channel_metadata WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
    for (key, value) in metadata {
      try db.run("INSERT INTO channel_metadata (channel, key, value, value_key) VALUES (?1, ?2, ?3, ?4)") {
        $0.bind(1, channel.rawValue)
        $0.bind(2, key.text)
        $0.bind(3, value)
        $0.bind(4, ChannelFacts.key(value))
      }
    }
    return true
  }

  /// Members an answer named. Who is not among them is gone only if the answer named as many as there are.
  func store(_ members: [MemberRecord], of channel: ChannelKey) throws -> Bool {
    var isChanged = false
    let named = members.filter { $0.state != .outside }
    for member in named { isChanged = try store(member, of: channel) || isChanged }
    let count = try reader.memberCount(of: channel)
    guard count > 0, Int64(named.count) >= count else { return isChanged }
    let ids = Set(named.map { UserID($0.userID) })
    for gone in try reader.memberIDs(of: channel) where !ids.contains(UserID(gone)) {
      try removeMember(gone, of: channel)
      isChanged = true
    }
    return isChanged
  }

  private func store(_ member: MemberRecord, of channel: ChannelKey) throws -> Bool {
    var body = member.body
    if !member.isWhole {
      body = try Fields.lay(body, over: reader.body(of: member.userID, in: channel) ?? Fields.ofMember)
    }
    let changed = try db.run(
      """
      INSERT INTO member (channel, user_id, nickname_key, state, body)
      VALUES (?1, ?2, coalesce(?3, ''), coalesce(?4, 'joined'), ?5)
      ON CONFLICT (channel, user_id) DO UPDATE
      SET nickname_key = coalesce(?3, nickname_key), state = coalesce(?4, state), body = ?5
      WHERE (state, body) IS NOT (coalesce(?4, state), ?5)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, member.userID)
      $0.bind(3, member.nickname.map(ChannelFacts.key))
      $0.bind(4, member.state?.rawValue)
      $0.bind(5, copyOf: body)
    }
    return changed > 0
  }

  func removeMember(_ user: String, of channel: ChannelKey) throws {
    try db.run("DELETE FROM member WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, user)
    }
  }

  /// How far members have read; nobody's position goes back.
  func store(receipts: [ExactText: Int64], of channel: ChannelKey) throws -> Bool {
    var all = try reader.readReceipts(of: channel)
    let before = all
    all.merge(receipts) { max($0, $1) }
    guard all != before else { return false }
    for (user, moment) in receipts {
      try db.run("UPDATE member SET read_at = max(read_at, ?3) WHERE channel = ?1 AND user_id = ?2") {
        $0.bind(1, channel.rawValue)
        $0.bind(2, user.text)
        $0.bind(3, moment)
      }
    }
    var writer = JSONWriter()
    writer.beginObject()
    for (user, moment) in all.sorted(by: { $0.key < $1.key }) {
      user.text.utf8.withContiguousStorageIfAvailable { writer.name(UnsafeRawBufferPointer($0)) }
      writer.value(moment)
    }
    writer.endObject()
    let text = writer.finish().array
    try db.run("UPDATE channel SET read_receipts = ?2 WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, copyOf: text)
    }
    return true
  }
}

extension CacheReader {
  /// How many members the upstream said there are, 0 where it did not.
  fileprivate func memberCount(of channel: ChannelKey) throws -> Int64 {
    try db.first("SELECT member_count FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.int64(0)
    } ?? 0
  }

  fileprivate func body(of member: String, in channel: ChannelKey) throws -> [UInt8]? {
    try db.first("SELECT body FROM member WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, member)
    } _: {
      Array($0.bytes(0))
    }
  }

  fileprivate func memberIDs(of channel: ChannelKey) throws -> [String] {
    try db.all("SELECT user_id FROM member WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.string(0)
    }
  }

  fileprivate func readReceipts(of channel: ChannelKey) throws -> [ExactText: Int64] {
    try db.first("SELECT read_receipts FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: { row in
      try JSONParser().parse(row.bytes(0)) { json in
        var receipts: [ExactText: Int64] = [:]
        for (user, moment) in json.fields {
          receipts[ExactText(String(decoding: user, as: UTF8.self))] = moment.int64 ?? 0
        }
        return receipts
      }
    } ?? [:]
  }
}
