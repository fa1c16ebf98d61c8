/// Which of a user's channels a list shows, and in which order (B6, B7).
package struct ChannelQuery: Hashable, Sendable {
  /// The orders. The url decides between channels that are equal otherwise (B7).
  package enum Order: String, Sendable, CaseIterable {
    /// The channel with the newest message first; channels without a message last, by creation.
    case latestLastMessage = "latest_last_message"
    /// The newest channel first.
    case chronological
    /// By name; channels without a name last.
    case name = "channel_name_alphabetical"
    /// By one metadata value; channels without that value last.
    case metadataValue = "metadata_value_alphabetical"
  }

  /// A filter for channels that the user joined or is invited to.
  package enum MemberState: String, Sendable, CaseIterable { case all, joined, invited }
  /// A filter for channels with unread messages.
  package enum Unread: String, Sendable, CaseIterable {
    case all
    case unreadMessage = "unread_message"
  }
  /// A filter for channels that the user hid, and how.
  package enum Hidden: String, Sendable, CaseIterable {
    case unhidden, hidden
    case allowAutoUnhide = "hidden_allow_auto_unhide"
    case preventAutoUnhide = "hidden_prevent_auto_unhide"
    case all
  }
  /// A filter for public or private channels.
  package enum Publicity: String, Sendable, CaseIterable {
    case all
    case isPublic = "public"
    case isPrivate = "private"
  }
  /// A filter for supergroup channels, which are made for very many members, or for other channels.
  package enum Size: String, Sendable, CaseIterable {
    case all
    case isSuper = "super"
    case isOrdinary = "nonsuper"
  }
  /// How several user ids are combined.
  package enum Junction: String, Sendable, CaseIterable { case and, or }
  /// Where `search` looks.
  package enum SearchField: String, Sendable, CaseIterable {
    case channelName = "channel_name"
    case memberNickname = "member_nickname"
  }

  /// An invalid field, and the reason.
  package struct Invalid: Error, Hashable, Sendable {
    /// The field's name in the contract.
    package let field: String
    /// What the client has to change.
    package let detail: String
  }

  /// The order of the list.
  package var order = Order.latestLastMessage
  /// The metadata key whose value orders the list.
  package var metadataOrderKey: String?
  /// The most channels in a page.
  package var limit = Limits.channelPageDefaultRows
  /// Whether channels without a message are shown.
  package var includesEmpty = false
  /// Whether frozen channels are shown.
  package var includesFrozen = true
  /// Whether the answer carries the members.
  package var includesMembers = false
  /// Whether the answer carries the metadata.
  package var includesMetadata = false
  /// Only channels with these urls; empty: all.
  package var channelURLs: [String] = []
  /// Only channels with these custom types; empty: all.
  package var customTypes: [String] = []
  /// Only channels whose custom type begins with this.
  package var customTypePrefix: String?
  /// Only channels whose name contains this, in any case.
  package var nameContains: String?
  /// Whether to show joined channels, channels with an invitation, or both.
  package var memberState = MemberState.all
  /// Only channels with unread messages.
  package var unread = Unread.all
  /// Only channels that the user hid, or did not hide.
  package var hidden = Hidden.unhidden
  /// Only public channels, or only private ones.
  package var publicity = Publicity.all
  /// Only supergroup channels, or only others.
  package var size = Size.all
  /// Only channels with these members; see `junction`.
  package var userIDsInclude: [String] = []
  /// Whether all of `userIDsInclude` must be members, or any.
  package var junction = Junction.and
  /// Only channels whose members are exactly these and the user.
  package var userIDsExact: [String] = []
  /// Only channels in which the nickname of somebody other than the user contains this, in any case.
  package var nicknameContains: String?
  /// The metadata key to filter by.
  package var metadataKey: String?
  /// Only channels whose value of `metadataKey` is one of these.
  package var metadataValues: [String] = []
  /// Only channels whose value of `metadataKey` begins with this.
  package var metadataValuePrefix: String?
  /// Only channels made before this moment, ms.
  package var createdBefore: Int64?
  /// Only channels made after this moment, ms.
  package var createdAfter: Int64?
  /// The text to look for in `searchFields`, in any case.
  package var search: String?
  /// The fields in which `search` is looked for.
  package var searchFields: [SearchField] = SearchField.allCases

  /// The default: every channel that has a message and is not hidden.
  package init() {}

  /// Throws for the first invalid field. `listValues`: the most values of a list that came in a query string.
  package func validate(listValues: Int? = nil) throws(Invalid) {
    guard (1...Limits.channelPageRows).contains(limit) else {
      throw Invalid(field: "limit", detail: "Give a number from 1 to \(Limits.channelPageRows).")
    }
    try validateOrder()
    try validateLists(listValues)
    try validateUsers()
    try validateMetadata()
    try validateTexts()
    if let createdBefore, let createdAfter, createdAfter >= createdBefore {
      throw Invalid(field: "created_after", detail: "Give a moment earlier than created_before.")
    }
  }

  private func validateOrder() throws(Invalid) {
    if order == .metadataValue, (metadataOrderKey ?? "").isEmpty {
      throw Invalid(field: "metadata_order_key", detail: "This order needs the metadata key to order by.")
    }
    if order != .metadataValue, metadataOrderKey != nil {
      throw Invalid(
        field: "metadata_order_key", detail: "It goes only with the order \(Order.metadataValue.rawValue).")
    }
  }

  private func validateLists(_ most: Int?) throws(Invalid) {
    let names = [
      ("channel_urls", channelURLs), ("user_ids_include", userIDsInclude), ("user_ids_exact", userIDsExact),
    ]
    for (field, values) in names where values.contains(where: \.isEmpty) {
      throw Invalid(field: field, detail: "Give ids, none of them empty.")
    }
    guard let most else { return }
    let lists = [
      ("channel_urls", channelURLs), ("custom_types", customTypes), ("user_ids_include", userIDsInclude),
      ("user_ids_exact", userIDsExact), ("metadata_values", metadataValues),
    ]
    for (field, values) in lists where values.count > most {
      throw Invalid(
        field: field, detail: "At most \(most) values fit here; a channel collection's body takes more.")
    }
  }

  private func validateUsers() throws(Invalid) {
    let given = [
      ("user_ids_include", !userIDsInclude.isEmpty), ("user_ids_exact", !userIDsExact.isEmpty),
      ("nickname_contains", nicknameContains != nil),
    ].filter(\.1).map(\.0)
    guard given.count < 2 else {
      throw Invalid(field: given[1], detail: "It does not go together with \(given[0]): give one of them.")
    }
    if junction == .or, userIDsInclude.isEmpty {
      throw Invalid(field: "query_type", detail: "It goes only with user_ids_include.")
    }
  }

  private func validateMetadata() throws(Invalid) {
    let hasValue = !metadataValues.isEmpty || metadataValuePrefix != nil
    if metadataKey == nil, hasValue {
      throw Invalid(field: "metadata_key", detail: "Name the metadata key that has the values.")
    }
    if metadataKey != nil, !hasValue {
      throw Invalid(
        field: "metadata_key", detail: "Give metadata_values or metadata_value_starts_with beside it.")
    }
    if !metadataValues.isEmpty, metadataValuePrefix != nil {
      throw Invalid(
        field: "metadata_value_starts_with", detail: "It does not go together with metadata_values.")
    }
  }

  private func validateTexts() throws(Invalid) {
    let texts = [
      ("custom_type_starts_with", customTypePrefix), ("name_contains", nameContains),
      ("nickname_contains", nicknameContains), ("metadata_value_starts_with", metadataValuePrefix),
      ("search", search), ("metadata_key", metadataKey),
    ]
    for (field, text) in texts where text?.isEmpty == true {
      throw Invalid(field: field, detail: "Give a text, or leave it out.")
    }
    if search != nil, searchFields.isEmpty {
      throw Invalid(field: "search_fields", detail: "Name at least one field to search in.")
    }
  }
}
