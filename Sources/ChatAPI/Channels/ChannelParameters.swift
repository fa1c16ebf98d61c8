import ChatModel
import MicroHTTP

/// Reads the query of a request for a page of channels (B6).
enum ChannelParameters {
  static func query(_ parameters: inout Parameters) -> ChannelQuery {
    var query = ChannelQuery()
    query.order = parameters.word("order", ChannelQuery.Order.self) ?? .latestLastMessage
    query.metadataOrderKey = parameters.text("metadata_order_key")
    query.limit =
      parameters.number("limit", 1...Int64(Limits.channelPageRows)).map(Int.init)
      ?? Limits.channelPageDefaultRows
    query.includesEmpty = parameters.flag("include_empty")
    query.includesFrozen = parameters.flag("include_frozen", default: true)
    query.includesMembers = parameters.flag("include_member_list")
    query.includesMetadata = parameters.flag("include_metadata")
    query.channelURLs = parameters.list("channel_urls")
    query.customTypes = parameters.list("custom_types", allowsEmpty: true)
    query.customTypePrefix = parameters.text("custom_type_starts_with")
    query.nameContains = parameters.text("name_contains")
    query.memberState = parameters.word("member_state", ChannelQuery.MemberState.self) ?? .all
    query.unread = parameters.word("unread", ChannelQuery.Unread.self) ?? .all
    query.hidden = parameters.word("hidden", ChannelQuery.Hidden.self) ?? .unhidden
    query.publicity = parameters.word("public", ChannelQuery.Publicity.self) ?? .all
    query.size = parameters.word("super", ChannelQuery.Size.self) ?? .all
    readMembers(&parameters, &query)
    readMetadata(&parameters, &query)
    query.createdBefore = parameters.number("created_before", 0 ... .max)
    query.createdAfter = parameters.number("created_after", 0 ... .max)
    query.search = parameters.text("search")
    readSearchFields(&parameters, &query)
    return query
  }

  private static func readMembers(_ parameters: inout Parameters, _ query: inout ChannelQuery) {
    query.userIDsInclude = parameters.list("user_ids_include")
    query.junction = parameters.word("query_type", ChannelQuery.Junction.self) ?? .and
    query.userIDsExact = parameters.list("user_ids_exact")
    query.nicknameContains = parameters.text("nickname_contains")
  }

  private static func readMetadata(_ parameters: inout Parameters, _ query: inout ChannelQuery) {
    query.metadataKey = parameters.text("metadata_key")
    query.metadataValues = parameters.list("metadata_values", allowsEmpty: true)
    query.metadataValuePrefix = parameters.text("metadata_value_starts_with")
  }

  private static func readSearchFields(_ parameters: inout Parameters, _ query: inout ChannelQuery) {
    guard parameters.isGiven("search_fields") else { return }
    query.searchFields = []
    for word in parameters.list("search_fields") {
      guard let field = ChannelQuery.SearchField(rawValue: word) else {
        let words = ChannelQuery.SearchField.allCases.map(\.rawValue).joined(separator: ", ")
        parameters.fault("search_fields", "Give some of \(words).")
        return
      }
      query.searchFields.append(field)
    }
  }
}
