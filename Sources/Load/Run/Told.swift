import Glibc
import JSON

/// An answer to a poll of a view: the messages of this load that its events name, and the cursor of the next
/// poll.
struct Told {
  /// One of this load's messages in an event.
  struct Message {
    let number: Int
    /// Whether the event is `messages.added`.
    let isAdded: Bool
  }

  fileprivate let bytes: [UInt8]
  /// The cursor that the client sends with its next poll; nil: the answer has no cursor.
  let cursor: String?
  let messages: [Message]

  fileprivate init(_ body: UnsafeRawBufferPointer, _ json: JSONValue, _ sent: Sent) {
    bytes = Array(body)
    cursor = json["cursor"]?.string
    messages =
      (json["events"]?.items).map { events in
        events.flatMap { event in
          let isAdded = event["type"]?.string == "messages.added"
          return Told.numbers(event, sent).map { Message(number: $0, isAdded: isAdded) }
        }
      } ?? []
  }

  /// The numbers of this load's messages in a view or an event.
  static func numbers(_ json: JSONValue, _ sent: Sent) -> [Int] {
    json["messages"]?.items.compactMap { message in
      message["message"]?.string.flatMap { sent.number(of: $0) }
    } ?? []
  }
}

/// The last answers to polls. Thousands who follow one chat get the same bytes, which are read once: the load
/// shares its machine with what it measures.
struct RecentlyTold {
  private static let most = 8
  private var answers: [Told] = []
  private var next = 0

  /// Reads an answer; nil: it is no JSON.
  mutating func read(_ body: UnsafeRawBufferPointer, _ parser: JSONParser, _ sent: Sent) -> Told? {
    if let known = answers.first(where: { $0.hasBytes(body) }) { return known }
    guard let told = parser.read(body, { Told(body, $0, sent) }) else { return nil }
    if answers.count < RecentlyTold.most { answers.append(told) } else { answers[next] = told }
    next = (next + 1) % RecentlyTold.most
    return told
  }
}

extension Told {
  fileprivate func hasBytes(_ body: UnsafeRawBufferPointer) -> Bool {
    guard let start = body.baseAddress else { return false }
    return bytes.count == body.count
      && bytes.withUnsafeBytes { memcmp($0.baseAddress!, start, body.count) == 0 }
  }
}
