import Glibc

/// A text that is compared and hashed by its UTF-8 bytes, as SQLite and the chat server do (B1).
///
/// Swift's `String` is compared by Unicode equivalence: `K` and U+212A are one key of a `[String: …]`. So
/// dictionaries by name use an id type or `ExactText` as their key.
package struct ExactText: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringLiteral {
  /// The text as it came.
  package let text: String
  /// Wraps `text`.
  @inlinable
  package init(_ text: some StringProtocol) { self.text = String(text) }
  /// Wraps a literal.
  package init(stringLiteral text: String) { self.text = text }
  /// The text.
  package var description: String { text }

  /// Whether both are the same bytes.
  @inlinable
  package static func == (a: ExactText, b: ExactText) -> Bool { a.text.hasSameBytes(as: b.text) }
  /// Feeds the bytes.
  @inlinable
  package func hash(into hasher: inout Hasher) { hasher.combine(bytesOf: text) }
}

extension ExactText: Comparable {
  /// Whether the bytes of `a` come before those of `b`, as in SQLite's BINARY collation.
  package static func < (a: ExactText, b: ExactText) -> Bool { a.text.precedesBytes(of: b.text) }
}

/// A dictionary whose keys are compared by their bytes and given as plain strings.
package struct TextMap<Value> {
  @usableFromInline var entries: [ExactText: Value] = [:]

  /// An empty map.
  @inlinable
  package init() {}

  /// The value under exactly these bytes.
  @inlinable
  package subscript(name: String) -> Value? {
    get { entries[ExactText(name)] }
    set { entries[ExactText(name)] = newValue }
    _modify { yield &entries[ExactText(name)] }
  }

  /// The value under these bytes; `fallback` if there is none.
  @inlinable
  package subscript(name: String, default fallback: @autoclosure () -> Value) -> Value {
    get { entries[ExactText(name), default: fallback()] }
    _modify { yield &entries[ExactText(name), default: fallback()] }
  }

  /// Removes and returns the value under these bytes.
  @discardableResult @inlinable
  package mutating func removeValue(forKey name: String) -> Value? {
    entries.removeValue(forKey: ExactText(name))
  }

  /// The map with the entries that `isIncluded` picks.
  package func filter(_ isIncluded: (Value) -> Bool) -> TextMap {
    var left = self
    left.entries = entries.filter { isIncluded($0.value) }
    return left
  }

  /// All values, in no order.
  package var values: Dictionary<ExactText, Value>.Values { entries.values }
  /// The number of entries.
  package var count: Int { entries.count }
  /// Whether the map has no entries.
  package var isEmpty: Bool { entries.isEmpty }
}

extension TextMap: Sequence {
  /// The entries, in no order.
  package func makeIterator() -> some IteratorProtocol<(name: String, value: Value)> {
    entries.lazy.map { (name: $0.key.text, value: $0.value) }.makeIterator()
  }
}

extension TextMap: ExpressibleByDictionaryLiteral {
  /// The entries of a literal.
  package init(dictionaryLiteral entries: (String, Value)...) {
    for (name, value) in entries { self[name] = value }
  }
}

extension TextMap: Sendable where Value: Sendable {}
extension TextMap: Equatable where Value: Equatable {}

extension String {
  /// Whether both texts are the same bytes.
  @inlinable
  package func hasSameBytes(as other: String) -> Bool {
    let isSame = utf8.withContiguousStorageIfAvailable { a in
      other.utf8.withContiguousStorageIfAvailable { b in
        a.count == b.count && (a.isEmpty || memcmp(a.baseAddress!, b.baseAddress!, a.count) == 0)
      }
    }
    // Native Swift strings are contiguous in memory; others are compared byte by byte.
    return (isSame ?? nil) ?? utf8.elementsEqual(other.utf8)
  }
}

extension StringProtocol {
  /// Whether both texts are the same bytes.
  package func hasSameBytes(as other: some StringProtocol) -> Bool { utf8.elementsEqual(other.utf8) }

  /// Whether the bytes come before the other's, as in SQLite's BINARY collation.
  package func precedesBytes(of other: some StringProtocol) -> Bool {
    utf8.lexicographicallyPrecedes(other.utf8)
  }
}

extension Hasher {
  /// Feeds a text's bytes and its end.
  @inlinable
  package mutating func combine(bytesOf text: String) {
    let isDone: Void? = text.utf8.withContiguousStorageIfAvailable {
      combine(bytes: UnsafeRawBufferPointer($0))
    }
    if isDone == nil { for byte in text.utf8 { combine(byte) } }
    combine(UInt8(0xFF))
  }
}
