import Glibc

/// Bytes under construction in one malloc'ed block, to be handed over without a copy.
///
/// An answer built this way costs what C costs; `[UInt8]`, `Data` and `String` cost a third to three times
/// more.
package struct ByteBuffer: ~Copyable, @unchecked Sendable {  // because it owns its memory alone
  /// The first byte; moves when the buffer grows.
  @usableFromInline package private(set) var base: UnsafeMutableRawPointer
  /// How many bytes are filled.
  @usableFromInline package private(set) var count = 0
  @usableFromInline package private(set) var capacity: Int

  /// An empty buffer with room for `capacity` bytes.
  package init(capacity: Int = 256) {
    self.capacity = max(capacity, 16)
    base = malloc(self.capacity)!
  }

  deinit { free(base) }

  /// The filled bytes, valid until the next change.
  package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

  /// Makes room for `more` bytes beyond those filled.
  @inline(__always)
  package mutating func reserve(_ more: Int) {
    if count + more > capacity { grow(more) }
  }

  @inline(never)
  private mutating func grow(_ more: Int) {
    capacity = max(capacity * 2, count + more)
    base = realloc(base, capacity)!
  }

  /// Appends a copy of `bytes`.
  @inline(__always)
  package mutating func append(_ bytes: UnsafeRawBufferPointer) {
    guard let start = bytes.baseAddress else { return }
    reserve(bytes.count)
    memcpy(base + count, start, bytes.count)
    count += bytes.count
  }

  /// Appends literal text without making a String.
  @inline(__always)
  package mutating func append(_ text: StaticString) {
    append(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  /// Appends one byte.
  @inline(__always)
  package mutating func append(_ byte: UInt8) {
    reserve(1)
    base.storeBytes(of: byte, toByteOffset: count, as: UInt8.self)
    count += 1
  }

  /// Appends text, for everything that is not on a hot path.
  package mutating func append(_ text: String) {
    var text = text
    text.withUTF8 { append(UnsafeRawBufferPointer($0)) }
  }

  /// Appends a number in decimal digits.
  package mutating func append(decimal number: Int64) {
    reserve(20)
    var magnitude = number.magnitude
    var digits = 1
    var rest = magnitude
    while rest >= 10 {
      rest /= 10
      digits += 1
    }
    if number < 0 { append(UInt8(ascii: "-")) }
    var place = count + digits
    count = place
    repeat {
      place -= 1
      base.storeBytes(
        of: UInt8(ascii: "0") + UInt8(truncatingIfNeeded: magnitude % 10), toByteOffset: place, as: UInt8.self
      )
      magnitude /= 10
    } while magnitude > 0
  }

  /// Forgets the bytes after the first `length`.
  package mutating func truncate(to length: Int) {
    precondition(length <= count)
    count = length
  }

  /// Gives the block away; whoever takes it calls `free`.
  package consuming func release() -> (start: UnsafeMutableRawPointer, count: Int) {
    let block = (base, count)
    discard self
    return block
  }

  /// A copy as an array, for tests and cold paths.
  package var array: [UInt8] { [UInt8](bytes) }
}
