/// A position in the event log: `epoch.run.sequence`, or `epoch.run.sequence.connection`. Opaque to clients,
/// who only give it back.
package struct EventCursor: Hashable, Sendable, CustomStringConvertible {
  /// The identity of the log. It changes when everything is cleared or the database is made anew.
  package let epoch: UInt64
  /// One higher at every start and restore.
  package let run: Int64
  /// The sequence of the last event that the client has seen.
  package let sequence: Int64
  /// The sequence up to which the client knows the state of its connection. It is later than `sequence` if
  /// the client is told nothing else, because its user's changes are not known (B1).
  package let connection: Int64

  /// A position in the log of `epoch`, seen during `run`.
  package init(epoch: UInt64, run: Int64, sequence: Int64, connection: Int64 = 0) {
    self.epoch = epoch
    self.run = run
    self.sequence = sequence
    self.connection = max(connection, sequence)
  }

  /// This cursor, or that of `sequence` if that is earlier. The client knows its connection as before.
  package func notAfter(_ sequence: Int64?) -> EventCursor {
    EventCursor(
      epoch: epoch, run: run, sequence: min(self.sequence, sequence ?? .max), connection: connection)
  }

  /// This cursor, of a client who knows its connection up to that sequence.
  package func knowingConnection(upTo sequence: Int64) -> EventCursor {
    EventCursor(epoch: epoch, run: run, sequence: self.sequence, connection: sequence)
  }

  /// Reads the text that `description` writes, and refuses any other.
  package init?(_ text: some StringProtocol) {
    var text = String(text)
    guard let cursor = text.withUTF8({ EventCursor(utf8: UnsafeRawBufferPointer($0)) }) else { return nil }
    self = cursor
  }

  private init?(utf8 bytes: UnsafeRawBufferPointer) {
    guard bytes.count > Digits.hexDigits, bytes[Digits.hexDigits] == UInt8(ascii: "."),
      let epoch = Digits.readHex(bytes[..<Digits.hexDigits])
    else { return nil }
    let rest = bytes[(Digits.hexDigits + 1)...]
    guard let point = rest.firstIndex(of: UInt8(ascii: ".")),
      let run = Digits.readDecimal(rest[..<point]), run >= 1
    else { return nil }
    let numbers = rest[(point + 1)...]
    guard let second = numbers.firstIndex(of: UInt8(ascii: ".")) else {
      guard let sequence = Digits.readDecimal(numbers) else { return nil }
      self.init(epoch: epoch, run: run, sequence: sequence)
      return
    }
    guard let sequence = Digits.readDecimal(numbers[..<second]),
      let connection = Digits.readDecimal(numbers[(second + 1)...]), connection > sequence
    else { return nil }
    self.init(epoch: epoch, run: run, sequence: sequence, connection: connection)
  }

  /// The text that clients give back.
  package var description: String {
    String(unsafeUninitializedCapacity: EventCursor.mostTextBytes) { room in
      write(into: UnsafeMutableRawBufferPointer(room))
    }
  }

  /// The epoch's digits, with which the text begins.
  package var epochText: String { String(description.prefix(Digits.hexDigits)) }

  /// No text has more bytes.
  package static let mostTextBytes = 80

  /// Writes the client's text, for answers built without Strings, and returns its length; `bytes` holds at
  /// least `mostTextBytes`.
  package func write(into bytes: UnsafeMutableRawBufferPointer) -> Int {
    Digits.writeHex(epoch, into: bytes, at: 0)
    bytes[Digits.hexDigits] = UInt8(ascii: ".")
    let end = Digits.writeDecimal(run, into: bytes, at: Digits.hexDigits + 1)
    bytes[end] = UInt8(ascii: ".")
    let length = Digits.writeDecimal(sequence, into: bytes, at: end + 1)
    guard connection > sequence else { return length }
    bytes[length] = UInt8(ascii: ".")
    return Digits.writeDecimal(connection, into: bytes, at: length + 1)
  }
}
