import JSON

// Answers that carry only some fields (B11): each is laid over the stored fields, so that the others stay.

/// Fields of a JSON object without braces.
enum Fields {
  /// A channel's fields before the upstream told any of them.
  static let ofChannel = Array(
    """
    "channel_url":"","name":"","cover_url":"","data":"","custom_type":"","created_at":0,"is_distinct":false,\
    "is_public":false,"is_super":false,"is_frozen":false,"is_broadcast":false,"member_count":0,\
    "joined_member_count":0
    """.utf8)

  /// A member's fields before the upstream told any of them.
  static let ofMember = Array(
    """
    "user_id":"","nickname":"","profile_url":"","state":"joined","role":"","is_muted":false,"is_active":true
    """.utf8)

  /// The fields of `all`, with the values of `some` for equal names; then the other fields of `some`.
  static func lay(_ some: [UInt8], over all: [UInt8]) throws -> [UInt8] {
    try parse(some) { new in
      try parse(all) { old in
        var writer = JSONWriter(capacity: some.count + all.count)
        var names: Set<[UInt8]> = []
        for field in old.fields {
          let name = Array(field.name)
          names.insert(name)
          writer.name(field.name)
          writer.value(new.field(named: String(decoding: name, as: UTF8.self)) ?? field.value)
        }
        for field in new.fields where !names.contains(Array(field.name)) {
          writer.name(field.name)
          writer.value(field.value)
        }
        return writer.finish().array
      }
    }
  }

  private static func parse<Result>(_ fields: [UInt8], _ body: (JSONValue) throws -> Result) throws -> Result
  {
    try ([UInt8(ascii: "{")] + fields + [UInt8(ascii: "}")]).withUnsafeBytes { bytes in
      try JSONParser.parse(bytes, body)
    }
  }
}
