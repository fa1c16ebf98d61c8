import ChatModel
import JSON

extension ChannelQuery {
  /// Reads the `query` of a channel collection, from a request or as it was stored (B6).
  package init(_ json: JSONValue) throws(InvalidFields) {
    self.init()
    var fields = BodyFields(json, prefix: "query")
    order = fields.word("order", Order.self) ?? .latestLastMessage
    metadataOrderKey = fields.text("metadata_order_key")
    limit = Int(fields.number("limit", 1...Int64(Limits.channelPageRows)) ?? Int64(limit))
    includesEmpty = fields.flag("include_empty")
    includesFrozen = fields.flag("include_frozen", default: true)
    includesMembers = fields.flag("include_member_list")
    includesMetadata = fields.flag("include_metadata")
    channelURLs = fields.list("channel_urls")
    customTypes = fields.list("custom_types")
    customTypePrefix = fields.text("custom_type_starts_with")
    nameContains = fields.text("name_contains")
    memberState = fields.word("member_state", MemberState.self) ?? .all
    unread = fields.word("unread", Unread.self) ?? .all
    hidden = fields.word("hidden", Hidden.self) ?? .unhidden
    publicity = fields.word("public", Publicity.self) ?? .all
    size = fields.word("super", Size.self) ?? .all
    userIDsInclude = fields.list("user_ids_include")
    junction = fields.word("query_type", Junction.self) ?? .and
    userIDsExact = fields.list("user_ids_exact")
    nicknameContains = fields.text("nickname_contains")
    metadataKey = fields.text("metadata_key")
    metadataValues = fields.list("metadata_values")
    metadataValuePrefix = fields.text("metadata_value_starts_with")
    createdBefore = fields.number("created_before", 0 ... .max)
    createdAfter = fields.number("created_after", 0 ... .max)
    search = fields.text("search")
    let names = fields.list("search_fields")
    if !names.isEmpty {
      searchFields = names.compactMap(SearchField.init(rawValue:))
      if searchFields.count != names.count {
        let words = SearchField.allCases.map(\.rawValue).joined(separator: ", ")
        fields.fault("search_fields", "Give some of \(words).")
      }
    }
    try fields.end()
    do throws(Invalid) { try validate() } catch {
      throw InvalidFields(faults: [("query." + error.field, error.detail)])
    }
  }

  /// The query as a JSON object, which `init` reads. Filters that are not set are left out.
  package var json: [UInt8] {
    var json = JSONWriter()
    json.beginObject()
    json.field("order", order.rawValue)
    json.field("limit", limit)
    json.field("include_empty", includesEmpty)
    json.field("include_frozen", includesFrozen)
    json.field("include_member_list", includesMembers)
    json.field("include_metadata", includesMetadata)
    json.field("member_state", memberState.rawValue)
    json.field("unread", unread.rawValue)
    json.field("hidden", hidden.rawValue)
    json.field("public", publicity.rawValue)
    json.field("super", size.rawValue)
    let texts: [(StaticString, String?)] = [
      ("metadata_order_key", metadataOrderKey), ("custom_type_starts_with", customTypePrefix),
      ("name_contains", nameContains), ("nickname_contains", nicknameContains),
      ("metadata_key", metadataKey), ("metadata_value_starts_with", metadataValuePrefix),
      ("search", search), ("query_type", junction == .or ? junction.rawValue : nil),
    ]
    for (name, text) in texts { if let text { json.field(name, text) } }
    let lists: [(StaticString, [String])] = [
      ("channel_urls", channelURLs), ("custom_types", customTypes), ("user_ids_include", userIDsInclude),
      ("user_ids_exact", userIDsExact), ("metadata_values", metadataValues),
      ("search_fields", search == nil ? [] : searchFields.map(\.rawValue)),
    ]
    for (name, list) in lists where !list.isEmpty { MessageViewRequest.write(name, list, into: &json) }
    if let createdBefore { json.field("created_before", createdBefore) }
    if let createdAfter { json.field("created_after", createdAfter) }
    json.endObject()
    return json.finish().array
  }
}
