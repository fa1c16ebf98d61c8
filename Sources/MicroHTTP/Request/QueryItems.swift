import Glibc

/// The query's items in their order, repeats included. Views into the request, valid as long as it is.
package struct QueryItems: Sequence, IteratorProtocol {
  private var rest: Substring

  private typealias Substring = UnsafeRawBufferPointer

  init(_ query: UnsafeRawBufferPointer) { rest = query }

  /// The next item; empty ones (`a=1&&b=2`) are passed over.
  package mutating func next() -> QueryItem? {
    while !rest.isEmpty {
      let stop = rest.offset(of: UInt8(ascii: "&"))
      let item = UnsafeRawBufferPointer(rebasing: rest[..<stop])
      rest = UnsafeRawBufferPointer(rebasing: rest[Swift.min(stop + 1, rest.count)...])
      if !item.isEmpty { return QueryItem(item) }
    }
    return nil
  }
}

extension UnsafeRawBufferPointer {
  /// The offset of the first such byte; `count` if there is none.
  func offset(of byte: UInt8) -> Int {
    guard let start = baseAddress, let found = memchr(start, Int32(byte), count) else { return count }
    return UnsafeRawPointer(found) - start
  }
}
