import ChatModel
import Glibc
import SQLite
import TestSupport

@testable import ChatCache

/// Random channels of one user, in memory and in a real file with the real schema.
struct ChannelWorld {
  static let user = UserKey(1)
  static let userID = UserID("me")
  static let urls = ["a", "b", "c"]
  static let names = [
    "", "Über uns", "über alles", "Zebra", "zebra", "ÉCOLE", "e\u{301}cole", "a", "😀 fun", "İstanbul",
  ]
  static let types = ["", "sport", "sports", "Sport", "работа"]
  static let people = ["me", "ann", "bob", "Ann", "zoë", "zoe\u{308}"]
  static let keys = ["color", "Size"]
  static let values = ["", "red", "Red", "redder", "ROT", "größe"]

  let connection: Connection
  var channels: [ChannelFacts] = []
  /// How a list finds the crowded channels. Both ways give the same.
  var followed = FollowedChannels.few

  init(path: String) throws {
    connection = try Connection(path: path)
    try connection.write { db in
      for script in [
        PackageResources.v001_user_sql, PackageResources.v001_channel_sql, PackageResources.v001_message_sql,
        PackageResources.v008_member_list_sql, PackageResources.v013_user_phase_sql,
        PackageResources.v022_crowded_sql,
      ] {
        try db.execute(String(decoding: script, as: UTF8.self))
      }
      try db.execute("INSERT INTO user (id, user_id, phase, seen_at) VALUES (1, 'me', 'connected', 0)")
    }
  }

  static func random(url: String, _ random: inout SeededRandom) -> ChannelFacts {
    var facts = ChannelFacts(channelURL: url)
    facts.nameKey = ChannelColumns.key(names.randomElement(using: &random) ?? "")
    facts.customType = types.randomElement(using: &random) ?? ""
    facts.createdAt = Int64.random(in: 1...6, using: &random) * 1000
    facts.isPublic = random.chance(50)
    facts.isSuper = random.chance(30)
    facts.isFrozen = random.chance(30)
    let last = random.chance(70) ? Int64.random(in: 1...8, using: &random) * 1000 : nil
    facts.sortAt = ChannelColumns.sortAt(lastMessageAt: last, createdAt: facts.createdAt)
    facts.state = random.chance(80) ? "joined" : "invited"
    let states = ["unhidden", "unhidden", "hidden_allow_auto_unhide", "hidden_prevent_auto_unhide"]
    facts.hiddenState = states.randomElement(using: &random) ?? "unhidden"
    facts.unread = Int64.random(in: 0...2, using: &random)
    facts.members = people.filter { $0 == "me" || random.chance(40) }.map {
      .init(userID: $0, nicknameKey: ChannelColumns.key(names.randomElement(using: &random) ?? ""))
    }
    // A matching count does not prove that the list is complete: as many members may have joined as left.
    facts.memberCount = facts.members.count + (random.chance(20) ? 1 : 0)
    facts.knowsMembers = facts.memberCount == facts.members.count && random.chance(90)
    if random.chance(80) {
      facts.metadata = [:]
      for key in keys where random.chance(60) {
        facts.metadata?[ExactText(key)] = values.randomElement(using: &random)
      }
    }
    return facts
  }

  mutating func fill(count: Int, _ random: inout SeededRandom) throws {
    let made = (0..<count).map { index in
      ChannelWorld.random(url: "\(ChannelWorld.urls[index % 3])\(index)", &random)
    }
    try connection.write { db in
      try db.execute(
        """
        DELETE FROM member; DELETE FROM member_list; DELETE FROM channel_metadata; DELETE FROM membership;
        DELETE FROM message; DELETE FROM channel
        """)
      for (index, facts) in made.enumerated() {
        try insert(facts, id: Int64(index + 1), isCrowded: random.chance(40), &random, db)
      }
      for id in Int64(count + 1)...Int64(count + 5) { try insertCrowd(id, &random, db) }
    }
    channels = made
    followed = random.chance(50) ? .few : .many
  }

  /// Inserts a crowded channel that the user is not in.
  private func insertCrowd(_ id: Int64, _ random: inout SeededRandom, _ db: WriteAccess) throws {
    try db.run(
      """
      INSERT INTO channel (id, channel_url, name, name_key, custom_type, created_at, is_distinct, is_public,
        is_super, is_frozen, member_count, joined_member_count, body, read_receipts, is_crowded,
        last_message_at, last_message_id)
      VALUES (?1, 'other' || ?1, '', '', '', 1, 0, 0, 0, 0, 1, 1, x'', x'', 1, ?2, 1)
      """
    ) {
      $0.bind(1, id)
      $0.bind(2, Int64.random(in: 1...8, using: &random) * 1000)
    }
  }

  private func insertMessage(_ id: Int64, in channel: Int64, at time: Int64, _ db: WriteAccess) throws {
    try db.run(
      """
      INSERT INTO message (channel, created_at, message_id, flags, body, version, updated_at, type, sender,
        custom_type)
      VALUES (?1, ?2, ?3, 0, x'', 0, 0, 0, 'ann', '')
      """
    ) {
      $0.bind(1, channel)
      $0.bind(2, time)
      $0.bind(3, id)
    }
  }

  /// Inserts the channel and the user's membership. Of a crowded one some unread messages are not in the row.
  private func insert(
    _ facts: ChannelFacts, id: Int64, isCrowded: Bool, _ random: inout SeededRandom, _ db: WriteAccess
  ) throws {
    let isFollowed = isCrowded && facts.sortAt >= 0
    let later = isFollowed ? Int64.random(in: 0...facts.unread, using: &random) : 0
    for number in 0..<later { try insertMessage(number + 1, in: id, at: facts.sortAt, db) }
    try db.run(
      """
      INSERT INTO channel (id, channel_url, name, name_key, custom_type, created_at, is_distinct,
        is_public, is_super, is_frozen, member_count, joined_member_count, body, read_receipts, metadata,
        is_crowded, last_message_at)
      VALUES (?1, ?2, '', ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9, ?9, x'', x'', iif(?10, x'', NULL), ?11, ?12)
      """
    ) {
      $0.bind(1, id)
      $0.bind(2, facts.channelURL)
      $0.bind(3, facts.nameKey)
      $0.bind(4, facts.customType)
      $0.bind(5, facts.createdAt)
      $0.bind(6, facts.isPublic)
      $0.bind(7, facts.isSuper)
      $0.bind(8, facts.isFrozen)
      $0.bind(9, facts.memberCount)
      $0.bind(10, facts.metadata != nil)
      $0.bind(11, isCrowded)
      $0.bind(12, facts.sortAt >= 0 ? facts.sortAt : nil)
    }
    try db.run(
      """
      INSERT INTO membership (user, channel, channel_url, name_key, created_at, sort_at, state, role,
        hidden_state, unread)
      VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, '', ?7, ?8)
      """
    ) {
      $0.bind(1, id)
      $0.bind(2, facts.channelURL)
      $0.bind(3, facts.nameKey)
      $0.bind(4, facts.createdAt)
      $0.bind(5, isFollowed ? ChannelColumns.follows : facts.sortAt)
      $0.bind(6, facts.state)
      $0.bind(7, facts.hiddenState)
      $0.bind(8, facts.unread - later)
    }
    try insertMembers(facts, id: id, db)
  }

  private func insertMembers(_ facts: ChannelFacts, id: Int64, _ db: WriteAccess) throws {
    if facts.knowsMembers {
      try db.run("INSERT INTO member_list (channel, is_whole) VALUES (?1, 1)") { $0.bind(1, id) }
    }
    for member in facts.members {
      try db.run(
        "INSERT INTO member (channel, user_id, nickname_key, state, body) VALUES (?1, ?2, ?3, 'joined', x'')"
      ) {
        $0.bind(1, id)
        $0.bind(2, member.userID)
        $0.bind(3, member.nicknameKey)
      }
    }
    for (key, value) in facts.metadata ?? [:] {
      try db.run("INSERT INTO channel_metadata (channel, key, value, value_key) VALUES (?1, ?2, ?3, ?4)") {
        $0.bind(1, id)
        $0.bind(2, key.text)
        $0.bind(3, value)
        $0.bind(4, ChannelColumns.key(value))
      }
    }
  }

  static func randomQuery(_ random: inout SeededRandom) -> ChannelQuery {
    var query = ChannelQuery()
    query.order = ChannelQuery.Order.allCases.randomElement(using: &random) ?? .name
    if query.order == .metadataValue { query.metadataOrderKey = keys.randomElement(using: &random) }
    query.includesEmpty = random.chance(70)
    query.includesFrozen = random.chance(70)
    query.hidden = ChannelQuery.Hidden.allCases.randomElement(using: &random) ?? .all
    if random.chance(15) { query.channelURLs = (0..<30).map { "\(urls[$0 % 3])\($0)" } }
    if random.chance(15) { query.customTypes = Array(types.shuffled(using: &random).prefix(2)) }
    if random.chance(15) {
      query.customTypePrefix = ["s", "sport", "раб", "S"].randomElement(using: &random)
    }
    if random.chance(15) { query.nameContains = ["ÜBER", "é", "Z", "😀", "e"].randomElement(using: &random) }
    if random.chance(15) { query.memberState = random.chance(50) ? .joined : .invited }
    if random.chance(15) { query.unread = .unreadMessage }
    if random.chance(15) { query.publicity = random.chance(50) ? .isPublic : .isPrivate }
    if random.chance(15) { query.size = random.chance(50) ? .isSuper : .isOrdinary }
    switch Int.random(in: 0..<12, using: &random) {
    case 0, 1:
      query.userIDsInclude = Array(
        people.shuffled(using: &random).prefix(Int.random(in: 1...3, using: &random)))
      query.userIDsInclude.append(query.userIDsInclude[0])
      query.junction = random.chance(50) ? .and : .or
    case 2:
      query.userIDsExact = Array(
        people.shuffled(using: &random).prefix(Int.random(in: 1...2, using: &random)))
    case 3: query.nicknameContains = ["ÜBER", "z", "É"].randomElement(using: &random)
    default: break
    }
    if random.chance(20) {
      query.metadataKey = keys.randomElement(using: &random)
      if random.chance(50) {
        query.metadataValuePrefix = "red"
      } else {
        query.metadataValues = ["red", "", "ROT"]
      }
    }
    if random.chance(15) { query.createdAfter = 2000 }
    if random.chance(15) { query.createdBefore = 5000 }
    if random.chance(15) {
      query.search = ["zeb", "É", "a"].randomElement(using: &random)
      if random.chance(50) { query.searchFields = random.chance(50) ? [.channelName] : [.memberNickname] }
    }
    return query
  }

  /// The urls of all pages, one after the other.
  func pages(_ query: ChannelQuery, limit: Int) throws -> [String] {
    var urls: [String] = []
    var after: ChannelListKey?
    repeat {
      let value = query.order == .metadataValue ? "coalesce(v.value_key, '')" : "m.name_key"
      let sql = ChannelListSQL(
        query, user: Self.user, named: Self.userID, after: after, limit: limit,
        columns: ChannelListSQL.Columns("m.channel_url, \(ChannelListSQL.sortAt), m.created_at, \(value)"),
        followed: query.order == .latestLastMessage ? followed : .none)
      after = nil
      var count = 0
      try connection.read { db in
        var rows = try db.rows(composed: sql.text) { sql.bind(to: $0) }
        while let row = try rows.next() {
          count += 1
          let url = row.string(0)
          urls.append(url)
          let isTimed = query.order == .latestLastMessage || query.order == .chronological
          let time = isTimed ? row.int64(query.order == .chronological ? 2 : 1) : 0
          after = ChannelListKey(time: time, text: isTimed ? "" : row.string(3), channelURL: url)
        }
      }
      if count < limit { after = nil }
    } while after != nil
    return urls
  }
}
