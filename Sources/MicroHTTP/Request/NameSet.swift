/// Which names the headers may have, so that most of those that are not there need not be looked for: one bit
/// for each first letter with a length.
struct NameSet {
  private var bits: UInt64 = 0

  mutating func insert(_ name: UnsafeRawBufferPointer) { bits |= NameSet.bit(name) }

  /// False means that no header is called so.
  func mayHold(_ name: UnsafeRawBufferPointer) -> Bool { bits & NameSet.bit(name) != 0 }

  private static func bit(_ name: UnsafeRawBufferPointer) -> UInt64 {
    guard let first = name.first else { return 0 }
    return 1 << UInt64((Int(first | 0x20) + 7 * name.count) & 63)
  }
}
