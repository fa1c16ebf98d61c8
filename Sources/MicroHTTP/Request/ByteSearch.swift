/// Searches bytes eight at a time, because most requests hold none of the sought bytes.
enum ByteSearch {
  private static let ones: UInt64 = 0x0101_0101_0101_0101
  private static let highs: UInt64 = 0x8080_8080_8080_8080

  /// Whether one of the bytes is sought. `eight` may return true for eight bytes without a sought one, but
  /// never false for eight bytes with one.
  @inline(__always)
  static func finds(
    in bytes: UnsafeRawBufferPointer, eight mayHold: (UInt64) -> Bool, one isSought: (UInt8) -> Bool
  ) -> Bool {
    var offset = 0
    while offset + 8 <= bytes.count {
      let word = bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
      if mayHold(word), bytes[offset..<(offset + 8)].contains(where: isSought) { return true }
      offset += 8
    }
    return bytes[offset...].contains(where: isSought)
  }

  /// Whether one of eight bytes is less than `limit`, which is at most 0x80.
  @inline(__always)
  static func holds(_ word: UInt64, below limit: UInt8) -> Bool {
    (word &- ones &* UInt64(limit)) & ~word & highs != 0
  }

  /// Whether one of eight bytes is `byte`.
  @inline(__always)
  static func holds(_ word: UInt64, _ byte: UInt8) -> Bool {
    let others = word ^ (ones &* UInt64(byte))
    return (others &- ones) & ~others & highs != 0
  }

  /// Whether one of eight bytes is not ASCII.
  @inline(__always)
  static func holdsBeyondASCII(_ word: UInt64) -> Bool { word & highs != 0 }
}
