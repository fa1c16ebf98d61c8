/// The messages of a load: when each was due, and who has to be told of it.
struct Sent {
  /// A message by its number.
  struct Message {
    let due: UInt64
    let isFromServer: Bool
    let channel: Int
    let sender: Int
    /// Whether Perch or the chat server said that it has the message.
    var isAccepted = false
    /// When the last of its polls so far told it; nil: none has.
    var lastToldAt: UInt64?
  }

  private let run: String
  private(set) var messages: [Message] = []

  /// `run`: a word that no other load's messages have.
  init(run: String) { self.run = run }

  /// Notes a message and returns its number.
  mutating func add(_ message: Message) -> Int {
    messages.append(message)
    return messages.count - 1
  }

  /// The message was accepted.
  mutating func accept(_ number: Int) { messages[number].isAccepted = true }

  /// A poll told one more follower of the message.
  mutating func tell(_ number: Int, at now: UInt64) {
    messages[number].lastToldAt = max(messages[number].lastToldAt ?? 0, now)
  }

  /// From the moment that a message was due until the last of its polls told it, for each message that was
  /// due from a moment on and that some poll told.
  func untilLast(dueFrom start: UInt64, isFromServer: Bool) -> Samples {
    var samples = Samples()
    for message in messages where message.due >= start && message.isFromServer == isFromServer {
      if let last = message.lastToldAt { samples.add(nanoseconds: last - message.due) }
    }
    return samples
  }

  /// The text of a message.
  func text(of number: Int) -> String { "\(run) \(number)" }

  /// The number of the message with this text; nil: it is not one of this load's.
  func number(of text: String) -> Int? {
    guard text.hasPrefix(run + " "), let number = Int(text.dropFirst(run.count + 1)),
      messages.indices.contains(number)
    else { return nil }
    return number
  }
}
