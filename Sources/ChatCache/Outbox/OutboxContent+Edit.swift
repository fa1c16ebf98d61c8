import JSON

extension OutboxContent {
  /// The content of an unsent message after an edit. The edit's fields replace those of the same names in
  /// `params` and in `body`.
  func edited(by changes: [UInt8]) throws -> OutboxContent {
    OutboxContent(
      params: OutboxContent.braced(try OutboxContent.fields(of: params, overlaidBy: changes)),
      body: try OutboxContent.fields(of: OutboxContent.braced(body), overlaidBy: changes))
  }

  /// The fields of the object `base`, overlaid by the fields of the object `changes`.
  private static func fields(of base: [UInt8], overlaidBy changes: [UInt8]) throws -> [UInt8] {
    try changes.withUnsafeBytes { changes in
      try base.withUnsafeBytes { base in
        try JSONParser.parse(changes) { edit in
          try JSONParser.parse(base) { message in overlay(message, edit) }
        }
      }
    }
  }

  private static func overlay(_ message: JSONValue, _ edit: JSONValue) -> [UInt8] {
    var writer = JSONWriter()
    for (name, value) in message.fields {
      writer.name(name)
      writer.value(edit.field(named: String(decoding: name, as: UTF8.self)) ?? value)
    }
    for (name, value) in edit.fields
    where message.field(named: String(decoding: name, as: UTF8.self)) == nil {
      writer.name(name)
      writer.value(value)
    }
    return writer.finish().array
  }

  private static func braced(_ fields: [UInt8]) -> [UInt8] {
    [UInt8(ascii: "{")] + fields + [UInt8(ascii: "}")]
  }
}
