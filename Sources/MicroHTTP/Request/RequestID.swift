import Glibc
import Synchronization

/// Ids for requests that came without one: 16 hexadecimal digits, unique in the process and hardly ever
/// repeated between processes.
enum RequestID {
  static let length = 16
  private static let counter = Atomic<UInt64>(randomStart())

  private static func randomStart() -> UInt64 {
    var generator = SystemRandomNumberGenerator()
    return generator.next()
  }

  /// The next number: a counter times an odd constant, so that numbers never repeat and do not look alike.
  static func next() -> UInt64 {
    counter.wrappingAdd(1, ordering: .relaxed).newValue &* 0x9E37_79B9_7F4A_7C15
  }

  /// Writes the digits of `number` without a zero byte at the end.
  static func write(_ number: UInt64, to target: UnsafeMutablePointer<CChar>) {
    var rest = number
    for digit in stride(from: length - 1, through: 0, by: -1) {
      let nibble = CChar(truncatingIfNeeded: rest & 15)
      target[digit] = nibble < 10 ? 48 + nibble : 87 + nibble
      rest >>= 4
    }
  }

  /// The digits of `number` as text.
  static func text(_ number: UInt64) -> String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: length + 1) { room in
      write(number, to: room.baseAddress!)
      room[length] = 0
      return String(cString: room.baseAddress!)
    }
  }

  /// Whether a client's id is accepted. It is echoed and logged, so it may hold only harmless characters.
  static func isWellFormed(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard (1...128).contains(bytes.count) else { return false }
    return bytes.allSatisfy {
      switch $0 {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
        UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
        UInt8(ascii: ":"), UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="):
        true
      default: false
      }
    }
  }
}
