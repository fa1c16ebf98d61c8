// A channel's confirmed messages are in one order, its line. A position on the line is the message's time in
// milliseconds and, because many messages share a millisecond, its id. The id must be a number: for an
// upstream whose ids are texts, Perch would have to number them.
//
// To clients a position is a text of 33 characters whose plain string order is the order of the line:
//
//     16 hex digits of the time, "-", 16 hex digits of (the id + 2^63)
//
// in lower case, always full width. Adding 2^63 (flipping the sign bit) makes negative ids sort before
// positive ones.

/// The upstream's id of a confirmed message.
public struct MessageID: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The id as a number.
  public let rawValue: Int64
  /// The id `rawValue`.
  @inlinable
  public init(_ rawValue: Int64) { self.rawValue = rawValue }

  /// Orders the messages of one millisecond: the earlier one has the smaller id.
  @inlinable
  public static func < (left: MessageID, right: MessageID) -> Bool { left.rawValue < right.rawValue }

  /// The decimal number, as the API spells ids.
  public var description: String { String(rawValue) }
}

/// The position of a confirmed message in its channel.
public struct Position: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// Milliseconds since 1970, never negative.
  public let createdAt: Int64
  /// The message's id, which orders messages of the same millisecond.
  public let messageID: Int64

  /// The position of message `messageID`, sent at `createdAt`; a time before 1970 counts as 1970.
  @inlinable
  public init(createdAt: Int64, messageID: Int64) {
    self.createdAt = max(createdAt, 0)
    self.messageID = messageID
  }

  /// Before every message.
  package static let start = Position(createdAt: 0, messageID: .min)
  /// After every message.
  package static let end = Position(createdAt: .max, messageID: .max)

  /// The first position of a millisecond.
  @inlinable
  public static func first(at createdAt: Int64) -> Position {
    Position(createdAt: createdAt, messageID: .min)
  }

  /// The last position of a millisecond.
  @inlinable
  public static func last(at createdAt: Int64) -> Position {
    Position(createdAt: createdAt, messageID: .max)
  }

  /// The position right after this one; for `end`, `end` itself.
  @inlinable
  public var next: Position {
    if messageID < .max { return Position(createdAt: createdAt, messageID: messageID + 1) }
    return createdAt < .max ? Position(createdAt: createdAt + 1, messageID: .min) : self
  }

  /// The position right before this one; for `start`, `start` itself.
  @inlinable
  public var previous: Position {
    if messageID > .min { return Position(createdAt: createdAt, messageID: messageID - 1) }
    return createdAt > 0 ? Position(createdAt: createdAt - 1, messageID: .max) : self
  }

  /// Compares the times, and equal times by the ids.
  @inlinable
  public static func < (left: Position, right: Position) -> Bool {
    left.createdAt == right.createdAt ? left.messageID < right.messageID : left.createdAt < right.createdAt
  }

  /// Bytes of the client's text.
  package static let textBytes = 33

  /// Reads the client's text, strictly: 33 bytes, lower case, a time that is not negative.
  package init?(_ text: some StringProtocol) {
    var text = String(text)
    guard let position = text.withUTF8({ Position(utf8: UnsafeRawBufferPointer($0)) }) else { return nil }
    self = position
  }

  /// Reads the client's text from its bytes, without a copy.
  package init?(utf8 bytes: UnsafeRawBufferPointer) {
    guard bytes.count == Position.textBytes, bytes[16] == UInt8(ascii: "-"),
      let time = Digits.readHex(bytes[0..<16]), time <= UInt64(Int64.max),
      let id = Digits.readHex(bytes[17..<33])
    else { return nil }
    self.init(createdAt: Int64(time), messageID: Int64(bitPattern: id ^ (1 << 63)))
  }

  /// The client's text.
  public var description: String {
    String(unsafeUninitializedCapacity: Position.textBytes) { bytes in
      write(into: UnsafeMutableRawBufferPointer(bytes))
      return Position.textBytes
    }
  }

  /// Writes the client's text, for pages built without Strings; `bytes` holds at least `textBytes`.
  package func write(into bytes: UnsafeMutableRawBufferPointer) {
    Digits.writeHex(UInt64(createdAt), into: bytes, at: 0)
    bytes[16] = UInt8(ascii: "-")
    Digits.writeHex(UInt64(bitPattern: messageID) ^ (1 << 63), into: bytes, at: 17)
  }
}
