import SQLite

/// Which channels a list shows: conditions in SQL over `channel c`, and `member m` for one user's list, with
/// the values to bind.
struct ChannelFilter {
  private(set) var sql = ""
  private var values: [String] = []
  private let firstIndex: Int

  init(firstIndex: Int) { self.firstIndex = firstIndex }

  func bind(to statement: Statement) {
    for (index, value) in values.enumerated() { statement.bind(Int32(firstIndex + index), value) }
  }

  private mutating func add(_ condition: String) { sql += " AND " + condition }

  /// Adds a condition on a value; it gets the name of the value's SQL parameter.
  private mutating func add(_ value: String, _ condition: (String) -> String) {
    sql += " AND " + condition("?\(firstIndex + values.count)")
    values.append(value)
  }

  /// Adds a condition on a list; it gets the list as a table. Without a list, adds none.
  private mutating func add(_ list: [String]?, _ condition: (String) -> String) {
    guard let list, !list.isEmpty else { return }
    add(Value.array(list.map(Value.string)).text) { condition("(SELECT value FROM json_each(\($0)))") }
  }

  /// Adds the conditions on the member whose list it is.
  mutating func addMember(_ arguments: Arguments) throws {
    let mode = try arguments.choice(
      "hidden_mode",
      ["unhidden_only", "hidden_only", "hidden_allow_auto_unhide", "hidden_prevent_auto_unhide", "all"],
      default: "unhidden_only")
    switch mode {
    case "all": break
    case "unhidden_only": add("m.hidden_state = 'unhidden'")
    case "hidden_only": add("m.hidden_state <> 'unhidden'")
    default: add(mode) { "m.hidden_state = \($0)" }
    }
    switch try arguments.choice(
      "member_state_filter",
      ["all", "joined_only", "invited_only", "invited_by_friend", "invited_by_non_friend"], default: "all")
    {
    case "all": break
    case "joined_only": add("m.state = 'joined'")
    default: add("m.state = 'invited'")
    }
    if try arguments.choice("unread_filter", ["all", "unread_message"], default: "all") != "all" {
      add(
        """
        m.state = 'joined' AND EXISTS (
          SELECT 1
          FROM message n
          WHERE n.channel = m.channel
            AND n.is_counted = 1
            AND n.created_at > max(m.read_at, m.floor, m.joined_at - 1)
            AND n.user_id IS NOT m.user_id)
        """)
    }
  }

  /// Adds the conditions on the channel alone.
  mutating func addChannel(_ arguments: Arguments) throws {
    if try !arguments.flag("show_empty") {
      add("EXISTS (SELECT 1 FROM message n WHERE n.channel = c.id)")
    }
    if try !arguments.flag("show_frozen", default: true) { add("c.is_frozen = 0") }
    try addKind(arguments)
    try addTexts(arguments)
    try addMembers(arguments)
    if let key = try arguments.text("metadata_key"), !key.isEmpty {
      // The JSON path of one key, without the quotes that would end it early.
      add("$.\"" + key.filter { $0 != "\"" } + "\"") { "json_extract(c.metadata, \($0)) IS NOT NULL" }
      let value = "json_extract(c.metadata, ?\(firstIndex + values.count - 1))"
      add(try arguments.texts("metadata_values")) { "\(value) IN \($0)" }
      if let start = try arguments.text("metadata_value_startswith") {
        add(start) { "substr(\(value), 1, length(\($0))) = \($0)" }
      }
    }
    if let after = try arguments.number("created_after") { add("c.created_at >= \(after)") }
    if let before = try arguments.number("created_before") { add("c.created_at <= \(before)") }
  }

  private mutating func addKind(_ arguments: Arguments) throws {
    switch try arguments.choice("distinct_mode", ["all", "distinct", "nondistinct"], default: "all") {
    case "distinct": add("c.distinct_key IS NOT NULL")
    case "nondistinct": add("c.distinct_key IS NULL")
    default: break
    }
    switch try arguments.choice("public_mode", ["all", "public", "private"], default: "all") {
    case "public": add("c.is_public = 1")
    case "private": add("c.is_public = 0")
    default: break
    }
    switch try arguments.choice(
      "super_mode", ["all", "super", "nonsuper", "broadcast_only"], default: "all")
    {
    case "super": add("c.is_super = 1")
    case "nonsuper": add("c.is_super = 0")
    case "broadcast_only": add("c.is_broadcast = 1")
    default: break
    }
  }

  private mutating func addTexts(_ arguments: Arguments) throws {
    let types = try arguments.texts("custom_types")
    if types?.contains("*") != true { add(types) { "c.custom_type IN \($0)" } }
    if let start = try arguments.text("custom_type_startswith"), !start.isEmpty {
      add(start) { "substr(c.custom_type, 1, length(\($0))) = \($0)" }
    }
    add(try arguments.texts("channel_urls")) { "c.url IN \($0)" }
    if let name = try arguments.text("name"), !name.isEmpty { add(name) { "c.name = \($0)" } }
    if let part = try arguments.text("name_contains"), !part.isEmpty {
      add(part) { "instr(lower(c.name), lower(\($0))) > 0" }
    }
    if let start = try arguments.text("name_startswith"), !start.isEmpty {
      add(start) { "substr(lower(c.name), 1, length(\($0))) = lower(\($0))" }
    }
  }

  private mutating func addMembers(_ arguments: Arguments) throws {
    if let users = try arguments.texts("members_include_in"), !users.isEmpty {
      let isAny = try arguments.choice("query_type", ["AND", "OR"], default: "AND") == "OR"
      add(users) { list in
        "(SELECT count(*) FROM member o WHERE o.channel = c.id AND o.user_id IN \(list))"
          + (isAny ? " > 0" : " = \(users.onceByBytes.count)")
      }
    }
    if let users = try arguments.texts("members_exactly_in"), !users.isEmpty {
      let count = users.onceByBytes.count
      add(users) { list in
        """
        (SELECT count(*) FROM member o WHERE o.channel = c.id AND o.user_id IN \(list)) = \(count)
        AND (SELECT count(*) FROM member o WHERE o.channel = c.id) = \(count)
        """
      }
    }
    try addNicknames(arguments)
  }

  private mutating func addNicknames(_ arguments: Arguments) throws {
    func isMember(_ condition: String) -> String {
      "EXISTS (SELECT 1 FROM member o JOIN user u USING (user_id) WHERE o.channel = c.id AND \(condition))"
    }
    add(try arguments.texts("members_nickname")) { isMember("u.nickname IN \($0)") }
    if let part = try arguments.text("members_nickname_contains"), !part.isEmpty {
      add(part) { isMember("instr(lower(u.nickname), lower(\($0))) > 0") }
    }
    if let start = try arguments.text("members_nickname_startswith"), !start.isEmpty {
      add(start) { isMember("substr(lower(u.nickname), 1, length(\($0))) = lower(\($0))") }
    }
  }
}
