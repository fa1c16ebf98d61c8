/// A filter for header names, so that the server looks up hardly any header that is not there. A name's first
/// letter and its length choose one of 64 bits.
struct NameSet {
  private var bits: UInt64 = 0

  mutating func insert(_ name: UnsafeRawBufferPointer) { bits |= NameSet.bit(name) }

  /// False: no header has this name.
  func mayHold(_ name: UnsafeRawBufferPointer) -> Bool { bits & NameSet.bit(name) != 0 }

  private static func bit(_ name: UnsafeRawBufferPointer) -> UInt64 {
    guard let first = name.first else { return 0 }
    return 1 << UInt64((Int(first | 0x20) + 7 * name.count) & 63)
  }
}
