import JSON
import SQLite

/// Pages of all channels, or of one user's channels.
///
/// The token is the last channel's sort key, so that a page neither repeats nor skips a channel that did not
/// move meanwhile.
enum ChannelLists {
  enum Order: String {
    case chronological
    case latestLastMessage = "latest_last_message"
    case name = "channel_name_alphabetical"

    init(_ arguments: Arguments) throws {
      let text = try arguments.text("order") ?? Order.chronological.rawValue
      guard let order = Order(rawValue: text) else { throw Refusal.invalid("order") }
      self = order
    }

    /// The columns of the order. Without a member, the newest `sort_at` of all members counts.
    func columns(isOfMember: Bool) -> (key: String, id: String) {
      let id = isOfMember ? "m.channel" : "c.id"
      return switch self {
      case .chronological: ("0", id)
      case .latestLastMessage: (isOfMember ? "m.sort_at" : Order.sortAtOfAll, id)
      case .name: ("c.name", id)
      }
    }

    private static let sortAtOfAll = """
      coalesce(
        (SELECT sort_at FROM crowd WHERE channel = c.id),
        (SELECT max(sort_at) FROM member WHERE channel = c.id),
        0)
      """

    var isRising: Bool { self == .name }
  }

  /// A sort key: a text or a number, and the channel's id. A token has the text in hex.
  private struct SortKey {
    var number: Int64 = 0
    var text = ""
    let id: Int64

    init?(_ token: String, _ order: Order) {
      let parts = token.split(separator: ".", omittingEmptySubsequences: false)
      guard parts.count == 2, let id = Int64(parts[1]) else { return nil }
      self.id = id
      if order == .name {
        guard let name = SortKey.text(hex: parts[0]) else { return nil }
        text = name
      } else {
        guard let number = Int64(parts[0]) else { return nil }
        self.number = number
      }
    }

    private static func text(hex: Substring) -> String? {
      let digits = Array(hex)
      guard digits.count % 2 == 0 else { return nil }
      var bytes: [UInt8] = []
      for index in stride(from: 0, to: digits.count, by: 2) {
        guard let byte = UInt8(String(digits[index...index + 1]), radix: 16) else { return nil }
        bytes.append(byte)
      }
      return String(decoding: bytes, as: UTF8.self)
    }

    static func token(_ found: Found, _ order: Order) -> String {
      switch order {
      case .name:
        String(decoding: Webhooks.hex(Array(found.channel.name.utf8)), as: UTF8.self)
          + ".\(found.channel.id)"
      case .latestLastMessage: "\(found.key).\(found.channel.id)"
      case .chronological: "0.\(found.channel.id)"
      }
    }
  }

  private struct Found {
    let channel: ChannelRow
    let key: Int64
  }

  /// `GET /v3/users/{user_id}/my_group_channels`
  static func mine(_ question: Question, _ json: inout JSONWriter) throws {
    let user = try Users.named(question.arguments.path("user_id"), question.reading)
    var filter = ChannelFilter(firstIndex: 5)
    try filter.addMember(question.arguments)
    try filter.addChannel(question.arguments)
    try page(viewer: user.id, filter, question, &json)
  }

  /// `GET /v3/group_channels`
  static func all(_ question: Question, _ json: inout JSONWriter) throws {
    var filter = ChannelFilter(firstIndex: 5)
    try filter.addChannel(question.arguments)
    try page(viewer: nil, filter, question, &json)
  }

  /// The list's query: ?1 is the user, ?2 the limit, ?3 and ?4 the key; then come the filter's parameters.
  static func sql(order: Order, isOfMember: Bool, isFirst: Bool, filter: String) -> String {
    let (key, id) = order.columns(isOfMember: isOfMember)
    let (sign, sense) = order.isRising ? (">", "") : ("<", " DESC")
    func select(_ key: String, from tables: String) -> String {
      let after =
        order == .chronological ? " AND \(id) \(sign) ?4" : " AND (\(key), \(id)) \(sign) (?3, ?4)"
      return "SELECT \(ChannelRow.columns), \(key) AS key, \(id) AS channel FROM \(tables)"
        + (isFirst ? "" : after) + filter
    }
    let channels = "JOIN channel c ON c.id = m.channel WHERE m.user_id = ?1"
    let all = isOfMember ? "member m \(channels)" : "channel c WHERE 1"
    guard isOfMember, order == .latestLastMessage else {
      let keys = order == .chronological ? id : "\(key)\(sense), \(id)"
      return select(key, from: all) + " ORDER BY \(keys)\(sense) LIMIT ?2"
    }
    // The channels of few members come in the order of their index; the crowds are sorted.
    let few = select(key, from: all + " AND m.sort_at >= 0")
    let crowds = select(
      "w.sort_at", from: "member m JOIN crowd w ON w.channel = m.channel \(channels) AND m.sort_at = -1")
    return "\(few) UNION ALL \(crowds) ORDER BY key DESC, channel DESC LIMIT ?2"
  }

  private static func page(
    viewer: String?, _ filter: ChannelFilter, _ question: Question, _ json: inout JSONWriter
  ) throws {
    let arguments = question.arguments
    let limit = Int(try arguments.number("limit", 1...100, default: 10))
    let order = try Order(arguments)
    let token = try arguments.text("token") ?? ""
    let key = token.isEmpty ? nil : SortKey(token, order)
    if !token.isEmpty, key == nil { throw Refusal(400109, "The page token is not valid.") }
    let sql = sql(order: order, isOfMember: viewer != nil, isFirst: key == nil, filter: filter.sql)
    var rows = try question.reading.rows(composed: sql) {
      $0.bind(1, viewer)
      $0.bind(2, limit + 1)
      if let key {
        if order == .name { $0.bind(3, key.text) } else { $0.bind(3, key.number) }
        $0.bind(4, key.id)
      }
      filter.bind(to: $0)
    }
    var found: [Found] = []
    while let row = try rows.next() { found.append(Found(channel: ChannelRow(row), key: row.int64(14))) }
    let shape = try ChannelJSON(viewer: viewer, question)
    json.beginObject()
    json.name("channels")
    json.beginArray()
    for one in found.prefix(limit) { try shape.write(one.channel, question.reading, to: &json) }
    json.endArray()
    json.field("next", found.count > limit ? SortKey.token(found[limit - 1], order) : "")
    json.field("ts", question.milliseconds)
    json.endObject()
  }
}
