/// A place in the event log: `epoch.run.sequence`. Opaque to clients, who only give it back.
package struct EventCursor: Hashable, Sendable, CustomStringConvertible {
  /// The identity of the log: another after the cache was cleared or made anew.
  package let epoch: UInt64
  /// One higher at every start and restore.
  package let run: Int64
  /// The last event seen.
  package let sequence: Int64

  /// A place in the log of `epoch`, seen during `run`.
  package init(epoch: UInt64, run: Int64, sequence: Int64) {
    self.epoch = epoch
    self.run = run
    self.sequence = sequence
  }

  /// Reads what `description` wrote, strictly: nothing else is a cursor.
  package init?(_ text: some StringProtocol) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0].utf8.count == 16,
      let epoch = UInt64(parts[0], radix: 16),
      let run = Int64(parts[1]), run >= 1,
      let sequence = Int64(parts[2]), sequence >= 0
    else { return nil }
    self.init(epoch: epoch, run: run, sequence: sequence)
    guard description == String(text) else { return nil }
  }

  /// The text clients give back.
  package var description: String {
    String(unsafeUninitializedCapacity: 64) { room in
      let bytes = UnsafeMutableRawBufferPointer(room)
      Digits.writeHex(epoch, into: bytes, at: 0)
      var end = Digits.hexDigits
      for number in [run, sequence] {
        bytes[end] = UInt8(ascii: ".")
        end = Digits.writeDecimal(number, into: bytes, at: end + 1)
      }
      return end
    }
  }
}
