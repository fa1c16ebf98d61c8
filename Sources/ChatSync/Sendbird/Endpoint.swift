import ChatCache
import ChatModel
import Platform

/// One request of the Sendbird-compatible Platform API as a value: path and query, not yet sent.
///
/// A time larger than any message stands for the newest end. `include_reply_type=ALL` and every `include_`
/// switch are always set, so that what is stored is whole (B13).
struct Endpoint: Sendable, Equatable {
  var path: String
  var query: [(name: String, value: String)] = []

  static func == (left: Endpoint, right: Endpoint) -> Bool { left.target == right.target }

  /// Path and query as they stand in the request line.
  var target: String {
    guard !query.isEmpty else { return path }
    return path + "?" + query.map { "\($0.name)=\(PercentEncoding.encode($0.value))" }.joined(separator: "&")
  }

  /// The kind of a call, for rate limits: the method and the path without ids.
  static func kind(_ method: HTTPRequest.Method, _ path: String) -> String {
    var words = path.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
    if words.count > 3, ["users", "group_channels"].contains(words[2]) { words[3] = "*" }
    if words.count > 5, ["messages", "members"].contains(words[4]), words[5] != "changelogs" {
      words[5] = words[4] == "messages" && Int64(words[5]) == nil ? words[5] : "*"
    }
    return method.rawValue + words.joined(separator: "/")
  }

  /// The same request with the query's `include_reply_type` in lower case.
  var inLowerCase: Endpoint {
    var endpoint = self
    for index in query.indices where query[index].name == "include_reply_type" {
      endpoint.query[index].value = query[index].value.lowercased()
    }
    return endpoint
  }

  /// Later than any message, and still an exact integer in a parser that reads doubles.
  static let newest: Int64 = 9_007_199_254_740_991

  static let probe = Endpoint(path: "/v3/users", query: [("limit", "1")])

  static let upload = Endpoint(path: "/v3/storage/file")

  static func user(_ user: UserID) -> Endpoint { Endpoint(path: "/v3/users/\(segment(user.text))") }

  static func channels(of user: UserID, order: ChannelOrder, limit: Int, after token: String?) -> Endpoint {
    var endpoint = Endpoint(
      path: "/v3/users/\(segment(user.text))/my_group_channels",
      query: [
        ("order", order == .lastMessage ? "latest_last_message" : "chronological"), ("limit", "\(limit)"),
        ("hidden_mode", "all"), ("member_state_filter", "all"),
      ] + channelParts())
    if let token { endpoint.query.append(("token", token)) }
    return endpoint
  }

  /// The parameters that ask for all fields of each channel. `hasMembers`: also for its members and their
  /// read positions.
  private static func channelParts(hasMembers: Bool = true) -> [(name: String, value: String)] {
    [
      ("show_member", "\(hasMembers)"), ("show_empty", "true"), ("show_frozen", "true"),
      ("show_metadata", "true"), ("show_read_receipt", "\(hasMembers)"), ("show_delivery_receipt", "false"),
    ]
  }

  static func channelChanges(of user: UserID, since: ChangesSince, hasMembers: Bool) -> Endpoint {
    Endpoint(
      path: "/v3/users/\(segment(user.text))/my_group_channels/changelogs",
      query: [start(since), ("limit", "100")] + channelParts(hasMembers: hasMembers))
  }

  static func channel(_ url: ChannelURL, as user: UserID?) -> Endpoint {
    var endpoint = Endpoint(path: "/v3/group_channels/\(segment(url.text))", query: channelParts())
    if let user { endpoint.query.append(("user_id", user.text)) }
    return endpoint
  }

  static func member(_ user: UserID, of url: ChannelURL) -> Endpoint {
    Endpoint(path: "/v3/group_channels/\(segment(url.text))/members/\(segment(user.text))")
  }

  static func members(of url: ChannelURL, limit: Int, after token: String?) -> Endpoint {
    Endpoint(
      path: "/v3/group_channels/\(segment(url.text))/members",
      query: [("limit", "\(limit)")] + (token.map { [("token", $0)] } ?? []))
  }

  static func messages(in url: ChannelURL, _ window: MessageWindow) -> Endpoint {
    let anchor: (name: String, value: String) =
      switch window.anchor {
      case .newest: ("message_ts", "\(newest)")
      case .time(let time): ("message_ts", "\(time)")
      case .message(let position): ("message_id", "\(position.messageID)")
      }
    return Endpoint(
      path: "/v3/group_channels/\(segment(url.text))/messages",
      query: [
        anchor, ("prev_limit", "\(window.older)"), ("next_limit", "\(window.newer)"),
        ("include", window.includesAnchor ? "true" : "false"), ("reverse", "false"),
      ] + (window.thread.map { [("parent_message_id", "\($0)")] } ?? []) + messageParts)
  }

  private static let messageParts: [(name: String, value: String)] = [
    ("include_reply_type", "ALL"), ("include_reactions", "true"), ("with_sorted_meta_array", "true"),
    ("include_thread_info", "true"), ("include_parent_message_info", "true"),
  ]

  static func message(_ id: Int64, in url: ChannelURL) -> Endpoint {
    Endpoint(path: "/v3/group_channels/\(segment(url.text))/messages/\(id)", query: messageParts)
  }

  static func messageChanges(in url: ChannelURL, since: ChangesSince) -> Endpoint {
    Endpoint(
      path: "/v3/group_channels/\(segment(url.text))/messages/changelogs",
      query: [start(since), ("limit", "100")] + messageParts)
  }

  static func send(in url: ChannelURL) -> Endpoint {
    Endpoint(path: "/v3/group_channels/\(PercentEncoding.encode(url.text))/messages")
  }

  /// The message itself, to be edited or deleted.
  static func change(_ id: Int64, in url: ChannelURL) -> Endpoint {
    Endpoint(path: "/v3/group_channels/\(PercentEncoding.encode(url.text))/messages/\(id)")
  }

  static func reactions(to id: Int64, in url: ChannelURL) -> Endpoint {
    Endpoint(path: "/v3/group_channels/\(PercentEncoding.encode(url.text))/messages/\(id)/reactions")
  }

  /// A user's reaction, to be removed.
  static func reaction(_ key: String, of user: UserID, to id: Int64, in url: ChannelURL) -> Endpoint {
    var endpoint = reactions(to: id, in: url)
    endpoint.query = [("user_id", user.text), ("reaction", key)]
    return endpoint
  }

  static func readMark(in url: ChannelURL) -> Endpoint {
    Endpoint(path: "/v3/group_channels/\(PercentEncoding.encode(url.text))/messages/mark_as_read")
  }

  private static func start(_ since: ChangesSince) -> (name: String, value: String) {
    switch since {
    case .time(let time): ("change_ts", "\(time)")
    case .token(let token): ("token", token.text)
    }
  }

  /// An id as one segment of a path. `.` and `..` are percent-encoded, since as they are they lead to other
  /// paths.
  private static func segment(_ id: String) -> String {
    ExactText(id) == "." || ExactText(id) == ".."
      ? id.utf8.map { _ in "%2E" }.joined() : PercentEncoding.encode(id)
  }

  /// Whether the path may be requested. An empty id would make it the path of a list. URL parsers and proxies
  /// remove `.` and `..` from a path, also percent-encoded (RFC 3986, 6.2.2), so the key would open another
  /// path.
  var isAskable: Bool {
    path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropFirst()
      .allSatisfy { !$0.isEmpty && !$0.elementsEqual("%2E".utf8) && !$0.elementsEqual("%2E%2E".utf8) }
  }
}
