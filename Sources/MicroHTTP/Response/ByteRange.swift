/// One range of bytes, already fitted to the file.
package struct ByteRange: Equatable {
  /// The offset of its first byte.
  package let first: Int
  /// The number of its bytes.
  package let count: Int

  /// A range that holds no byte of the file: 416.
  package static let unsatisfiable = ByteRange(first: -1, count: 0)

  private init(first: Int, count: Int) {
    self.first = first
    self.count = count
  }

  /// The range that a request asks for in a file of `size` bytes; nil: the whole file.
  package init?(of request: Request, size: Int) {
    guard let header = request.header("Range") else { return nil }
    self.init(header, size: size)
  }

  /// Reads `bytes=a-b`, `bytes=a-` or `bytes=-n`. Nil for any other value, which is ignored.
  init?(_ header: UnsafeRawBufferPointer, size: Int) {
    let text = String(decoding: header, as: UTF8.self)
    guard text.hasPrefix("bytes="), !text.contains(",") else { return nil }
    let ends = text.dropFirst(6).split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
    guard ends.count == 2, ends.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }) else {
      return nil
    }
    switch (Int(ends[0]), Int(ends[1])) {
    case (let first?, let last?):
      guard first <= last else { return nil }
      self = first < size ? ByteRange(first: first, count: min(last, size - 1) - first + 1) : .unsatisfiable
    case (let first?, nil):
      guard ends[1].isEmpty else { return nil }
      self = first < size ? ByteRange(first: first, count: size - first) : .unsatisfiable
    case (nil, let length?):
      guard ends[0].isEmpty else { return nil }
      let count = min(length, size)
      self = count > 0 ? ByteRange(first: size - count, count: count) : .unsatisfiable
    case (nil, nil): return nil
    }
  }
}
