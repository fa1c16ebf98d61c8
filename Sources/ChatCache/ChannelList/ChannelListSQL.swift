import ChatModel
import SQLite

// The filters and orders of a channel list as SQL over `membership` (m), `channel` (c), `member` and
// `channel_metadata`. A test compares them with the same filters in memory.
//
// Each order is one walk along an index of `membership` that begins with the user, and the filters look at
// the rows the walk passes. By time, a page enters its index at the key from which it goes on. By name it
// enters at the first name, or at the first channel without one, and passes the index entries up to the key,
// without reading their channels: SQLite bounds that search by the computed column alone, not by the columns
// after it.
//
// Channels that the user follows because they are crowded have no position of their own in `membership`. In
// the order of messages they are a second walk, and SQLite merges the two. That walk reads the user's
// crowded channels and sorts them if they are few, else all crowded channels in their order, without those of
// others.
//
// The order by a metadata value has no index; each page sorts all of the user's channels. An index would need
// a copy of the metadata for each member, for an order that few lists use.

/// The SQL of a channel list's page, and the values to bind.
package struct ChannelListSQL: Sendable {
  /// A value that is bound to a `?`.
  package enum Value: Hashable, Sendable {
    case number(Int64)
    case text(String)
    /// The channel that is looked up.
    case channel
  }

  /// The columns of a row: of m and c and, in the order by a metadata value, `value_key`. In the order of
  /// messages each of the two walks has its own columns for the position.
  package struct Columns: Sendable {
    private(set) var text: String
    let ofOwn: String
    let ofFollowed: String

    /// The columns `text`, which names the position `ChannelListSQL.sortAt`.
    package init(_ text: String) {
      self.text = text
      ofOwn = text.replacing(ChannelListSQL.sortAt, with: "m.sort_at")
      ofFollowed = text.replacing(ChannelListSQL.sortAt, with: "c.last_message_at")
        .replacing("m.channel_url", with: "c.channel_url")
    }

    /// The same columns, for the order by a metadata value with that value as the last one.
    func and(valueFor order: ChannelQuery.Order) -> Columns {
      guard order == .metadataValue else { return self }
      var columns = self
      columns.text += ", v.value_key"
      return columns
    }
  }

  /// The statement.
  package private(set) var text = ""
  /// The values for its question marks, in order.
  package private(set) var values: [Value] = []

  /// The page of `query` after a key, or the first one: at most `limit` rows of `columns`.
  ///
  /// `followed`: how many crowded channels the user follows; it matters in the order of messages alone.
  package init(
    _ query: ChannelQuery, user: UserKey, named userID: UserID, after: ChannelListKey? = nil, limit: Int,
    columns: Columns, followed: FollowedChannels = .none
  ) {
    if followed != .none {
      appendOwn(query, user, userID, after, columns)
      text += "\nUNION ALL"
      appendFollowed(query, user, userID, after, columns, areMany: followed == .many)
    } else {
      text = "SELECT \(columns.text)"
      appendSource(query, user)
      appendFilters(query, userID, isComplete: true)
      if let after { append(after, query.order) }
    }
    appendOrder(query.order)
    bind("\nLIMIT ?", .number(Int64(limit)))
  }

  /// The one channel that `bind` names, if the list shows it or leaves it out because it is empty. `columns`
  /// are of m alone.
  init(lookingUpIn query: ChannelQuery, user: UserKey, named userID: UserID, columns: Columns) {
    var query = query
    query.includesEmpty = true
    text = "SELECT \(columns.text)"
    appendSource(query, user, isOrdered: false, joinsChannel: query.asksChannel)
    bind("\n  AND m.channel = ?", .channel)
    appendFilters(query, userID, isComplete: true)
  }

  /// Finds channels that the list may show, or show at another position, once the missing data is stored: the
  /// list is then not complete (B8). One row per such channel; a channel that is shown already may be among
  /// them if some of its members are unknown. Nil: stored data always answers the query.
  package static func undecided(
    _ query: ChannelQuery, user: UserKey, named userID: UserID
  ) -> ChannelListSQL? {
    let asksMetadata = query.metadataKey != nil || query.order == .metadataValue
    guard query.asksMembers || asksMetadata else { return nil }
    let reasons =
      (asksMetadata ? ["c.metadata IS NULL"] : [])
      + (query.asksMembers ? ["NOT \(ChannelListSQL.knowsMembers)"] : [])
    return undecided(query, user: user, named: userID, "1", because: reasons, limit: 1)
  }

  /// Finds the urls of channels whose complete list of members the query needs, at most `limit`. Nil: the
  /// query does not ask about members.
  package static func withUnknownMembers(
    _ query: ChannelQuery, user: UserKey, named userID: UserID, limit: Int
  ) -> ChannelListSQL? {
    guard query.asksMembers else { return nil }
    return undecided(
      query, user: user, named: userID, "m.channel_url", because: ["NOT \(ChannelListSQL.knowsMembers)"],
      limit: limit)
  }

  private static func undecided(
    _ query: ChannelQuery, user: UserKey, named userID: UserID, _ columns: String, because reasons: [String],
    limit: Int
  ) -> ChannelListSQL {
    var sql = ChannelListSQL(text: "SELECT \(columns)")
    sql.appendSource(query, user)
    sql.appendFilters(query, userID, isComplete: false)
    sql.text += "\n  AND (\(reasons.joined(separator: " OR ")))\nLIMIT \(limit)"
    return sql
  }

  private init(text: String) { self.text = text }

  /// Binds the values.
  package func bind(to statement: Statement) { ChannelListSQL.bind(values, to: statement) }

  /// Binds values. `channel`: the channel that is looked up.
  static func bind(_ values: [Value], to statement: Statement, channel: ChannelKey? = nil) {
    for (index, value) in values.enumerated() {
      switch value {
      case .channel: statement.bind(Int32(index + 1), channel?.rawValue)
      case .number(let number): statement.bind(Int32(index + 1), number)
      case .text(let text): statement.bind(Int32(index + 1), text)
      }
    }
  }

  /// Whether the channel's list of members is complete (`MemberList.isComplete`).
  static let knowsMembers = """
    EXISTS (
        SELECT 1 FROM member_list AS k
        WHERE k.channel = m.channel AND k.is_whole = 1 AND k.news = k.settled)
    """

  private mutating func bind(_ sql: String, _ values: Value...) {
    text += sql
    self.values += values
  }

  private mutating func appendSource(
    _ query: ChannelQuery, _ user: UserKey, isOrdered: Bool = true, joinsChannel: Bool = true
  ) {
    text += "\nFROM membership AS m\(isOrdered ? ChannelListSQL.index(of: query.order) : "")"
    if joinsChannel { text += "\nCROSS JOIN channel AS c ON c.id = m.channel" }
    if query.order == .metadataValue {
      bind(
        "\nLEFT JOIN channel_metadata AS v ON v.channel = m.channel AND v.key = ?",
        .text(query.metadataOrderKey ?? ""))
    }
    bind("\nWHERE m.user = ?", .number(user.rawValue))
  }

  /// The channels with a position in `membership`.
  private mutating func appendOwn(
    _ query: ChannelQuery, _ user: UserKey, _ userID: UserID, _ after: ChannelListKey?, _ columns: Columns
  ) {
    text = "SELECT \(columns.ofOwn)"
    appendSource(query, user)
    text += "\n  AND m.sort_at > \(ChannelColumns.follows)"
    appendFilters(query, userID, isComplete: true)
    if let after { append(after, query.order) }
  }

  /// The crowded channels that the user follows.
  private mutating func appendFollowed(
    _ query: ChannelQuery, _ user: UserKey, _ userID: UserID, _ after: ChannelListKey?, _ columns: Columns,
    areMany: Bool
  ) {
    text += "\nSELECT \(columns.ofFollowed)"
    if areMany {
      text += "\nFROM channel AS c INDEXED BY channel_crowded"
      bind("\nCROSS JOIN membership AS m ON m.user = ? AND m.channel = c.id", .number(user.rawValue))
      text += "\nWHERE c.is_crowded = 1 AND m.sort_at = \(ChannelColumns.follows)"
    } else {
      appendSource(query, user)
      text += "\n  AND m.sort_at = \(ChannelColumns.follows)"
    }
    appendFilters(query, userID, isComplete: true)
    if let after { append(after, time: "c.last_message_at", url: "c.channel_url") }
  }

  /// The position of the membership m of the channel c in a list in the order of messages.
  static let sortAt = "iif(m.sort_at = \(ChannelColumns.follows), c.last_message_at, m.sort_at)"

  /// The index of an order. The statement names it, because the planner would otherwise choose another index
  /// for a filter's sake and sort the rows.
  private static func index(of order: ChannelQuery.Order) -> String {
    switch order {
    case .latestLastMessage: " INDEXED BY membership_by_last_message"
    case .chronological: " INDEXED BY membership_by_creation"
    case .name: " INDEXED BY membership_by_name"
    case .metadataValue: ""
    }
  }

  private mutating func appendOrder(_ order: ChannelQuery.Order) {
    switch order {
    case .latestLastMessage: text += "\nORDER BY m.sort_at DESC, m.channel_url"
    case .chronological: text += "\nORDER BY m.created_at DESC, m.channel_url"
    case .name: text += "\nORDER BY (m.name_key = ''), m.name_key, m.channel_url"
    case .metadataValue:
      text += "\nORDER BY (coalesce(v.value_key, '') = ''), coalesce(v.value_key, ''), m.channel_url"
    }
  }

  /// Adds the condition that a row comes after `after`. Only its first comparison bounds the index search.
  private mutating func append(_ after: ChannelListKey, _ order: ChannelQuery.Order) {
    let url = Value.text(after.channelURL)
    switch order {
    case .latestLastMessage: append(after, time: "m.sort_at", url: "m.channel_url")
    case .chronological: append(after, time: "m.created_at", url: "m.channel_url")
    case .name, .metadataValue:
      let column = order == .name ? "m.name_key" : "coalesce(v.value_key, '')"
      let empty = Value.number(after.text.isEmpty ? 1 : 0)
      bind("\n  AND (\(column) = '') >= ?", empty)
      bind("\n  AND ((\(column) = ''), \(column), m.channel_url) > (?, ?, ?)", empty, .text(after.text), url)
    }
  }

  private mutating func append(_ after: ChannelListKey, time column: String, url: String) {
    let time = Value.number(after.time)
    bind("\n  AND \(column) <= ?", time)
    bind("\n  AND (\(column) < ? OR \(url) > ?)", time, .text(after.channelURL))
  }

  private static func marks(_ count: Int) -> String {
    Array(repeating: "?", count: count).joined(separator: ", ")
  }

  private mutating func appendOneOf(_ column: String, _ texts: [String]) {
    guard !texts.isEmpty else { return }
    text += "\n  AND \(column) IN (\(ChannelListSQL.marks(texts.count)))"
    values += texts.map(Value.text)
  }
}

extension ChannelQuery {
  /// Whether the query's filters compare members of the channel.
  package var asksMembers: Bool {
    !userIDsInclude.isEmpty || !userIDsExact.isEmpty || nicknameContains != nil
      || (search != nil && searchFields.contains(.memberNickname))
  }
}

extension ChannelQuery {
  /// Whether a filter compares a column of the channel's own row, apart from the time of its last message.
  var asksChannel: Bool {
    !includesFrozen || !customTypes.isEmpty || customTypePrefix != nil || unread != .all
      || publicity != .all || size != .all || metadataKey != nil
  }
}

extension ChannelListSQL {
  /// Adds the filters. `isComplete`: only channels that match for certain. Otherwise also channels that may
  /// match, because the cache lacks some of their members or their metadata.
  private mutating func appendFilters(_ query: ChannelQuery, _ userID: UserID, isComplete: Bool) {
    appendOwnFilters(query)
    switch query.hidden {
    case .all: break
    case .hidden: text += "\n  AND m.hidden_state <> 'unhidden'"
    default: text += "\n  AND m.hidden_state = '\(query.hidden.rawValue)'"
    }
    if isComplete {
      text += asksMetadata(query) ? "\n  AND c.metadata IS NOT NULL" : ""
      appendMembers(query, userID, orUnknown: false)
      appendMetadata(query, orUnknown: false)
    } else {
      appendMembers(query, userID, orUnknown: true)
      appendMetadata(query, orUnknown: true)
    }
  }

  private func asksMetadata(_ query: ChannelQuery) -> Bool { query.metadataKey != nil }

  private mutating func appendOwnFilters(_ query: ChannelQuery) {
    if !query.includesEmpty { text += "\n  AND \(ChannelListSQL.sortAt) >= 0" }
    if !query.includesFrozen { text += "\n  AND c.is_frozen = 0" }
    appendOneOf("m.channel_url", query.channelURLs)
    appendOneOf("c.custom_type", query.customTypes)
    if let prefix = query.customTypePrefix {
      bind("\n  AND instr(CAST(c.custom_type AS BLOB), CAST(? AS BLOB)) = 1", .text(prefix))
    }
    if let part = query.nameContains {
      bind("\n  AND \(ChannelListSQL.nameContains)", .text(ChannelColumns.key(part)))
    }
    if let moment = query.createdBefore { bind("\n  AND m.created_at < ?", .number(moment)) }
    if let moment = query.createdAfter { bind("\n  AND m.created_at > ?", .number(moment)) }
    if query.memberState != .all { bind("\n  AND m.state = ?", .text(query.memberState.rawValue)) }
    if query.unread == .unreadMessage { text += "\n  AND \(ChannelListSQL.hasUnread)" }
    if query.publicity != .all { text += "\n  AND c.is_public = \(query.publicity == .isPublic ? 1 : 0)" }
    if query.size != .all { text += "\n  AND c.is_super = \(query.size == .isSuper ? 1 : 0)" }
  }

  private static let hasUnread = """
    (m.unread > 0
        OR c.is_crowded
        AND EXISTS (SELECT 1 FROM unread_message AS x WHERE x.user = m.user AND x.channel = m.channel))
    """

  private static let nameContains = "instr(CAST(m.name_key AS BLOB), CAST(? AS BLOB)) > 0"

  private static let nicknameContains = """
    EXISTS (
        SELECT 1 FROM member AS x
        WHERE x.channel = m.channel
          AND x.user_id <> ?
          AND instr(CAST(x.nickname_key AS BLOB), CAST(? AS BLOB)) > 0)
    """

  private mutating func appendMembers(_ query: ChannelQuery, _ userID: UserID, orUnknown: Bool) {
    let unknown = orUnknown ? " OR NOT \(ChannelListSQL.knowsMembers)" : ""
    let found = { (ids: [String]) in
      """
      (SELECT count(*) FROM member AS x
          WHERE x.channel = m.channel AND x.user_id IN (\(ChannelListSQL.marks(ids.count))))
      """
    }
    if !query.userIDsInclude.isEmpty {
      let ids = ChannelQuery.once(query.userIDsInclude)
      text += "\n  AND (\(found(ids)) >= \(query.junction == .and ? ids.count : 1)\(unknown))"
      values += ids.map(Value.text)
    }
    if !query.userIDsExact.isEmpty {
      let ids = query.exactMembers(userID)
      let all = "(SELECT count(*) FROM member AS x WHERE x.channel = m.channel)"
      let open = orUnknown ? " OR (NOT \(ChannelListSQL.knowsMembers) AND c.member_count = \(ids.count))" : ""
      let known = "\(ChannelListSQL.knowsMembers) AND \(all) = \(ids.count)"
      text += "\n  AND ((\(known) AND \(found(ids)) = \(ids.count))\(open))"
      values += ids.map(Value.text)
    }
    if let part = query.nicknameContains {
      text += "\n  AND (\(ChannelListSQL.nicknameContains)\(unknown))"
      values += [.text(userID.text), .text(ChannelColumns.key(part))]
    }
    guard let search = query.search else { return }
    let key = Value.text(ChannelColumns.key(search))
    var conditions: [String] = []
    if query.searchFields.contains(.channelName) {
      conditions.append(ChannelListSQL.nameContains)
      values.append(key)
    }
    if query.searchFields.contains(.memberNickname) {
      conditions.append(ChannelListSQL.nicknameContains + unknown)
      values += [.text(userID.text), key]
    }
    text += "\n  AND (\(conditions.joined(separator: " OR ")))"
  }

  private mutating func appendMetadata(_ query: ChannelQuery, orUnknown: Bool) {
    guard let key = query.metadataKey else { return }
    text +=
      "\n  AND (EXISTS (\n    SELECT 1 FROM channel_metadata AS x"
    text += "\n    WHERE x.channel = m.channel AND x.key = ?"
    values.append(.text(key))
    if let prefix = query.metadataValuePrefix {
      bind("\n      AND instr(CAST(x.value AS BLOB), CAST(? AS BLOB)) = 1", .text(prefix))
    } else {
      text += "\n      AND x.value IN (\(ChannelListSQL.marks(query.metadataValues.count)))"
      values += query.metadataValues.map(Value.text)
    }
    text += orUnknown ? ") OR c.metadata IS NULL)" : "))"
  }
}

extension ChannelQuery {
  /// The members of `user_ids_exact` and the user, each once.
  func exactMembers(_ user: UserID) -> [String] { ChannelQuery.once(userIDsExact + [user.text]) }

  /// Each text once, by its bytes.
  static func once(_ texts: [String]) -> [String] {
    var seen: Set<[UInt8]> = []
    return texts.filter { seen.insert(Array($0.utf8)).inserted }
  }
}
