import ChatModel
import JSON
import SQLite

// Decides whether an uncertain send has arrived: looks for its message among those after the row's anchor
// (B39).
extension CacheReader {
  /// The message that answers the request: the one that names it, else the first of the same sender, type and
  /// content that answers no other request.
  func answer(
    to job: OutboxJob, of user: UserID, _ key: UserKey, among messages: [MessageRecord]
  ) throws -> MessageRecord? {
    let wanted = try MessageContent(asked: job.params)
    // Request ids are unique per user only.
    let sender = wanted.isAdmin ? UserID("") : user
    let own = messages.filter { UserID($0.sender) == sender }
    if let named = own.first(where: { RequestID($0.requestID) == job.requestID }) { return named }
    return try own.sorted { $0.position < $1.position }.first { message in
      try message.requestID.isEmpty && MessageContent(message, like: wanted).isSame(as: wanted)
        && !isClaimed(message.messageID, by: key)
    }
  }
}

/// The fields by which two messages of one sender are compared.
struct MessageContent: Equatable {
  private let type: [UInt8]
  private var text: [UInt8]
  private let data: [UInt8]
  private let customType: [UInt8]
  private let file: [UInt8]
  private let parent: [UInt8]
  /// Whether `file` is the file's url. A file that is sent with its message has no url before, so `file` is
  /// its name and size.
  private let namesURL: Bool

  var isAdmin: Bool { type == Array("admin".utf8) }

  /// The content that a client asked to send.
  init(asked params: [UInt8]) throws {
    self = try params.withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) {
        let isWithMessage = $0["type"]?.string == "file" && $0["file_url"] == nil
        return MessageContent(
          $0, url: $0["file_url"], name: $0["file_name"], size: $0["file_size"], namesURL: !isWithMessage)
      }
    }
  }

  /// The content of the upstream's message, to be compared with `other`.
  init(_ record: MessageRecord, like other: MessageContent) throws {
    let object = [UInt8(ascii: "{")] + record.body + [UInt8(ascii: "}")]
    self = try object.withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) {
        let file = $0["file"]
        return MessageContent(
          $0, url: file?["url"], name: file?["name"], size: file?["size"], namesURL: other.namesURL)
      }
    }
  }

  /// Whether both have the same content. Texts of files are not compared, because the upstream may drop them.
  func isSame(as other: MessageContent) -> Bool {
    guard type == Array("file".utf8) else { return self == other }
    var (one, two) = (self, other)
    one.text = []
    two.text = []
    return one == two
  }

  private init(
    _ message: JSONValue, url: JSONValue?, name: JSONValue?, size: JSONValue?, namesURL: Bool
  ) {
    func bytes(_ value: JSONValue?) -> [UInt8] { value?.utf8.map { Array($0) } ?? [] }
    let type = bytes(message["type"])
    self.type = type.isEmpty ? Array("user".utf8) : type
    text = bytes(message["message"])
    data = bytes(message["data"])
    customType = bytes(message["custom_type"])
    self.namesURL = namesURL
    file = namesURL ? bytes(url) : bytes(name) + [0] + Array("\(size?.int64 ?? 0)".utf8)
    parent = bytes(message["parent_message_id"])
  }
}
