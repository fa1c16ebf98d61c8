import Glibc

/// Bytes under construction in one malloc'ed block, to be handed over without a copy.
///
/// Building an answer in it takes as long as in C; with `[UInt8]`, `Data` or `String` it takes a third to
/// three times longer.
public struct ByteBuffer: ~Copyable, @unchecked Sendable {  // because it owns its memory alone
  @usableFromInline var start: UnsafeMutableRawPointer
  @usableFromInline var filled = 0
  @usableFromInline var capacity: Int

  /// An empty buffer with room for `capacity` bytes. With 0 it allocates nothing before the first append.
  package init(capacity: Int = 256) {
    self.capacity = capacity
    start = capacity > 0 ? malloc(capacity)! : ByteBuffer.nowhere
  }

  deinit { if capacity > 0 { free(start) } }

  private static var nowhere: UnsafeMutableRawPointer { UnsafeMutableRawPointer(bitPattern: 16)! }

  /// The first byte; moves when the buffer grows.
  @inlinable public var base: UnsafeMutableRawPointer { start }

  /// The size of the block in bytes.
  package var allocated: Int { capacity }

  /// The number of filled bytes.
  @inlinable public var count: Int { filled }

  /// The filled bytes, valid until the next change.
  @inlinable public var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: filled) }

  /// Empties it and keeps its memory.
  package mutating func clear() { filled = 0 }

  /// Makes room for `more` bytes beyond those filled.
  @inlinable
  public mutating func reserve(_ more: Int) {
    if filled + more > capacity { grow(more) }
  }

  @inline(never)
  @usableFromInline mutating func grow(_ more: Int) {
    let memory = capacity > 0 ? start : nil
    capacity = max(capacity * 2, filled + more)
    start = realloc(memory, capacity)!
  }

  /// Appends a copy of `bytes`.
  @inlinable @inline(__always)
  public mutating func append(_ bytes: UnsafeRawBufferPointer) {
    guard let first = bytes.baseAddress else { return }
    reserve(bytes.count)
    memcpy(start + filled, first, bytes.count)
    filled += bytes.count
  }

  /// Appends some of the filled bytes once more.
  package mutating func append(again part: Range<Int>) {
    precondition(part.upperBound <= filled)
    reserve(part.count)
    memcpy(start + filled, start + part.lowerBound, part.count)
    filled += part.count
  }

  /// Appends literal text without making a String.
  @inlinable @inline(__always)
  public mutating func append(_ text: StaticString) {
    append(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  /// Appends one byte.
  @inlinable @inline(__always)
  public mutating func append(_ byte: UInt8) {
    reserve(1)
    start.storeBytes(of: byte, toByteOffset: filled, as: UInt8.self)
    filled += 1
  }

  /// Appends `count` bytes, which `write` must fill.
  @inlinable @inline(__always)
  public mutating func append(_ count: Int, _ write: (UnsafeMutableRawBufferPointer) -> Void) {
    reserve(count)
    write(UnsafeMutableRawBufferPointer(start: start + filled, count: count))
    filled += count
  }

  /// Appends a String; not for hot paths. Disfavoured, so that a literal uses the overload without a String.
  @_disfavoredOverload
  package mutating func append(_ text: String) {
    var text = text
    text.withUTF8 { append(UnsafeRawBufferPointer($0)) }
  }

  /// Appends a number in decimal digits.
  public mutating func append(decimal number: Int64) {
    reserve(20)
    if number < 0 { append(UInt8(ascii: "-")) }
    filled = DecimalText.write(number.magnitude, into: start, at: filled)
  }

  /// Removes all bytes after the first `length`.
  package mutating func truncate(to length: Int) {
    precondition(length <= filled)
    filled = length
  }

  /// Removes a range of bytes and moves the following ones up.
  package mutating func remove(_ part: Range<Int>) {
    precondition(part.upperBound <= filled)
    memmove(start + part.lowerBound, start + part.upperBound, filled - part.upperBound)
    filled -= part.count
  }

  /// Gives the block to the caller, who must call `free`.
  package consuming func release() -> (start: UnsafeMutableRawPointer, count: Int) {
    if capacity == 0 { reserve(1) }
    let block = (start, filled)
    discard self
    return block
  }

  /// A copy as an array, for tests and cold paths.
  package var array: [UInt8] { [UInt8](bytes) }
}
