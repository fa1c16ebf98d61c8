/// The texts that a recording keeps: the vendor's own words, and whole numbers, in the fields that hold them.
/// Every other text is blanked.
enum Vocabulary {
  /// First segments of the Platform API's paths.
  static let roots: [String] = [
    "announcements", "applications", "bans", "bots", "emoji_categories", "emojis", "group_channels",
    "open_channels", "polls", "report", "scheduled_messages", "statistics", "storage", "users",
  ]

  /// Segments of paths that are no ids.
  static let segments: Set<String> = Set(roots).union([
    "accept", "ban", "block", "changelogs", "decline", "file", "freeze", "hide", "invite", "join", "leave",
    "mark_as_delivered", "mark_as_read", "members", "messages", "metacounter", "metadata", "mute",
    "my_group_channels", "operators", "push", "push_preference", "reactions", "reset_user_history",
    "scheduled_messages", "sorted_metaarray", "token", "total_count", "typing", "unread_channel_count",
    "unread_count", "unread_item_count", "unread_message_count",
  ])

  /// Fields of answers, bodies and queries that hold one of `words`.
  static let wordFields: Set<String> = [
    "category", "channel_type", "count_preference", "distinct_mode", "hidden_mode", "hidden_state",
    "include_reply_type", "member_state", "member_state_filter", "mention_type", "message_type", "my_role",
    "operation", "order", "public_mode", "push_trigger_option", "query_type", "reply_type", "role", "state",
    "super_mode", "type", "unread_filter",
  ]

  /// The vendor's words, in lower case.
  static let words: Set<String> = [
    "add", "admm", "all", "any", "brdm", "channel", "channel_name_alphabetical", "chronological", "default",
    "delete", "distinct", "file", "group", "hidden", "hidden_allow_auto_unhide",
    "hidden_prevent_auto_unhide", "hidden_only", "invited", "invited_by_friend",
    "invited_by_non_friend", "invited_only", "joined", "joined_only", "latest_last_message", "mention_only",
    "mesg", "metadata_value_alphabetical", "nondistinct", "none", "nonsuper", "off", "only_reply_to_channel",
    "open", "operator", "private", "public", "super", "unhidden", "unhidden_only", "unread_message",
    "users",
  ]

  /// Fields whose texts are kept where they are whole numbers: ids of messages, times and limits.
  static let numberFields: Set<String> = [
    "after", "before", "change_ts", "created_after", "created_at", "created_before", "deleted_at",
    "invited_at", "joined_ts", "limit", "message_id", "message_ts", "msg_id", "next_limit",
    "parent_message_id", "prev_limit", "read_ts", "ts", "ts_message_offset", "updated_at", "user_last_read",
  ]

  /// Fields that hold ids of users and channels.
  static let idFields: Set<String> = [
    "channel_url", "channel_urls", "deleted", "invitee_ids", "members_exactly_in", "members_include_in",
    "mentioned_user_ids", "operator_ids", "sender_ids", "user_id", "user_ids",
  ]

  /// Objects whose names are ids of users.
  static let idMaps: Set<String> = ["delivery_receipt", "read_receipt", "unread"]

  /// Objects whose field names are not the vendor's: users' ids, keys of metadata, languages.
  static let maps: Set<String> = [
    "delivery_receipt", "extended_message_payload", "metacounter", "metadata", "metas", "read_receipt",
    "translations", "unread",
  ]

  /// Objects whose numbers and flags are blanked, too.
  static let ownNumbers: Set<String> = ["extended_message_payload", "metacounter"]

  /// Whether a text in this field is kept.
  static func keeps(_ text: String, in field: String) -> Bool {
    if text.isEmpty || ["true", "false", "True", "False"].contains(text) { return true }
    if wordFields.contains(field) { return words.contains(text.lowercased()) }
    return numberFields.contains(field) && isNumber(text)
  }

  /// Whether a segment of a path is kept, after those before it.
  ///
  /// `/v3/users/{id}/my_group_channels/changelogs`: below `/v3` the first and every second segment is a word.
  /// The ones between are ids, unless they are one of the few words that can stand there.
  static func keepsSegment(_ segment: String, after before: [String]) -> Bool {
    guard let last = before.last, last != "v3" else { return segments.contains(segment) || segment == "v3" }
    if before.count % 2 == 1 { return segments.contains(segment) }
    switch last {
    case "messages": return segments.contains(segment) || isNumber(segment)
    case "my_group_channels", "storage": return segments.contains(segment)
    default: return false
    }
  }

  /// Whether the segment is the id of a user or a channel.
  static func isID(after before: [String]) -> Bool {
    before.count == 2 && ["users", "group_channels"].contains(before[1])
      || before.count == 4 && ["members", "mute", "ban"].contains(before[3])
  }

  /// Whether a name of an object can be one of the vendor's.
  static func isFieldName(_ name: String) -> Bool {
    name.utf8.count <= 40
      && name.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || $0 == 95 }
  }

  private static func isNumber(_ text: String) -> Bool {
    let digits = text.hasPrefix("-") ? text.dropFirst() : text[...]
    return (1...19).contains(digits.utf8.count) && digits.utf8.allSatisfy { (48...57).contains($0) }
  }
}
