import ChatCollections
import ChatModel
import JSON

/// A JSON body that a client sends: an accepted one, written and read again, must be the same.
///
/// The first byte selects the kind of body.
enum BodyHarness {
  static func run(_ input: UnsafeRawBufferPointer) throws {
    guard let kind = input.first else { return }
    let body = UnsafeRawBufferPointer(rebasing: input.dropFirst())
    let parser = JSONParser()
    do {
      try parser.parse(body) { json in
        switch kind % 3 {
        case 0: try messages(json)
        case 1: try channels(json)
        default: try fields(json)
        }
      }
    } catch is JSONError {
    } catch let error as InvalidFields {
      try check(!error.faults.isEmpty, "refused without a word")
    }
  }

  private static func messages(_ json: JSONValue) throws {
    let request = try MessageViewRequest(json)
    let again = try request.json.withUnsafeBytes { try JSONParser().parse($0) { try MessageViewRequest($0) } }
    try check(request == again, "a view of messages comes back as another: \(request) \(again)")
    try check((0...200).contains(request.previousSize), "\(request.previousSize) rows before")
    try check((0...200).contains(request.nextSize), "\(request.nextSize) rows after")
  }

  private static func channels(_ json: JSONValue) throws {
    var query = try ChannelQuery(json)
    var again = try query.json.withUnsafeBytes { try JSONParser().parse($0) { try ChannelQuery($0) } }
    // The fields to search are written only with a text to search for.
    if query.search == nil { (query.searchFields, again.searchFields) = ([], []) }
    try check(query == again, "a query for channels comes back as another: \(query) \(again)")
    try check((1...Limits.channelPageRows).contains(query.limit), "\(query.limit) rows")
  }

  private static func fields(_ json: JSONValue) throws {
    var fields = BodyFields(json, prefix: "x")
    _ = fields.text("text")
    _ = fields.number("number", -5...5)
    _ = fields.flag("flag")
    _ = fields.list("list", atMost: 3)
    _ = fields.position("position")
    _ = fields.word("word", ChannelQuery.Order.self)
    try fields.end()
  }
}
